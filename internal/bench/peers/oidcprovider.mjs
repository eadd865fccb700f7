// Runs panva's oidc-provider on a loopback port, for internal/bench:
//
//   OIDC_PROVIDER=FOLDER node oidcprovider.mjs PORT RESOURCE SECRET
//
// FOLDER is where oidc-provider is installed. RESOURCE gets access tokens that are JWTs signed with
// ES256; "notes" introspects with SECRET. Whoever comes is signed in and allows everything, so the
// first authorization in a browser takes two redirects more than the others.
import { pathToFileURL } from 'node:url';
import { generateKeyPairSync } from 'node:crypto';

const { default: Provider } = await import(pathToFileURL(`${process.env.OIDC_PROVIDER}/node_modules/oidc-provider/lib/index.js`));
const [port, resource, secret] = process.argv.slice(2);

// Records are in a map without a bound: the adapter that comes with oidc-provider keeps a thousand.
const records = new Map();
const indexes = new Map();
const members = new Map();
class Unbounded {
  constructor(model) { this.model = model; }
  key(id) { return `${this.model}:${id}`; }
  async upsert(id, payload) {
    const key = this.key(id);
    if (payload.uid) indexes.set(`uid:${payload.uid}`, id);
    if (payload.grantId) members.set(payload.grantId, [...(members.get(payload.grantId) ?? []), key].slice(-8));
    records.set(key, payload);
  }
  async find(id) { return records.get(this.key(id)); }
  async findByUid(uid) { return this.find(indexes.get(`uid:${uid}`)); }
  async findByUserCode() { return undefined; }
  async consume(id) { records.get(this.key(id)).consumed = Math.floor(Date.now() / 1000); }
  async destroy(id) { records.delete(this.key(id)); }
  async revokeByGrantId(grant) { for (const key of members.get(grant) ?? []) records.delete(key); members.delete(grant); }
}

const scope = 'notes:read notes:write';
const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const provider = new Provider(`http://127.0.0.1:${port}`, {
  adapter: Unbounded,
  clients: [{
    client_id: 'notes', client_secret: secret, redirect_uris: [], response_types: [], grant_types: [], token_endpoint_auth_method: 'client_secret_basic',
  }],
  clientDefaults: { id_token_signed_response_alg: 'ES256' },
  cookies: { keys: ['one run'] },
  features: {
    devInteractions: { enabled: false },
    introspection: { enabled: true, allowedPolicy: () => true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope, audience: resource, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } }),
    },
  },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  issueRefreshToken: () => true,
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'ES256' }] },
  async loadExistingGrant(ctx) {
    const given = ctx.oidc.session.grantIdFor(ctx.oidc.client.clientId);
    if (given) return ctx.oidc.provider.Grant.find(given);
    const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
    grant.addResourceScope(resource, scope);
    await grant.save();
    return grant;
  },
  rotateRefreshToken: true,
  routes: { authorization: '/authorize', token: '/token', introspection: '/introspect', registration: '/register' },
});
provider.use(async (ctx, next) => {
  if (ctx.path.startsWith('/interaction/')) {
    return provider.interactionFinished(ctx.req, ctx.res, { login: { accountId: 'subject' } });
  }
  return next();
});
provider.listen(Number(port), '127.0.0.1');
