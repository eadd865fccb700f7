// Runs panva's oidc-provider on a loopback port, for a test that signs in there.
//
//   OIDC_PROVIDER=FOLDER node oidcprovider.mjs CLIENT
//
// FOLDER is where oidc-provider is installed; CLIENT is the JSON of the client's metadata. Beside it
// there is "notes", with the secret "secret", which only asks about tokens. The first line of standard output is the issuer. Each line of standard input is a command, which
// is repeated on standard output when it is done:
//
//   rotate        use a new signing key, and publish no other
//   forget        end all refresh tokens
//   remove NAME   have no person with that name any more
//   down          answer what has begun, and listen no more
//   up            listen again at the same address, if it does not
//
// Everybody signs in with the name that they type, has NAME@example.com and, but for guest, the group staff.
import { createServer } from 'node:http';
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const { default: Provider } = await import(pathToFileURL(`${process.env.OIDC_PROVIDER}/node_modules/oidc-provider/lib/index.js`));
const client = JSON.parse(process.argv[2]);
const asker = { client_id: 'notes', client_secret: 'secret', redirect_uris: [], response_types: [], grant_types: [] };

// Records live here, so that they survive a new key.
const records = new Map();
class Records {
  constructor(kind) { this.kind = kind; }
  key(id) { return `${this.kind}:${id}`; }
  async upsert(id, payload) { records.set(this.key(id), payload); }
  async find(id) { return records.get(this.key(id)); }
  async findByUid(uid) { return [...records.values()].find((r) => r.kind === this.kind && r.uid === uid); }
  async findByUserCode() { return undefined; }
  async consume(id) { records.get(this.key(id)).consumed = Math.floor(Date.now() / 1000); }
  async destroy(id) { records.delete(this.key(id)); }
  async revokeByGrantId(grantId) {
    for (const [key, record] of records) if (record.grantId === grantId) records.delete(key);
  }
}

const server = createServer();
await new Promise((listening) => { server.listen(0, '127.0.0.1', listening); });
const issuer = `http://127.0.0.1:${server.address().port}`;

const removed = new Set();
const cookieKey = randomUUID();
let handle;
const rotate = () => {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const provider = new Provider(issuer, {
    adapter: Records,
    clients: [client, asker],
    cookies: { keys: [cookieKey] },
    // Without the dispatcher that refuses loopback addresses, where the test listens.
    fetch: (url, { dispatcher, ...options }) => fetch(url, options),
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg: 'RS256' }] },
    scopes: ['openid', 'offline_access', 'groups'],
    claims: { openid: ['sub'], profile: ['name'], email: ['email', 'email_verified'], groups: ['groups'] },
    features: {
      devInteractions: { enabled: true }, backchannelLogout: { enabled: true }, introspection: { enabled: true }, revocation: { enabled: true },
      // Access tokens for a resource are JWTs, unless it is at localhost or its name says that they are opaque.
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        getResourceServerInfo: (ctx, resource) => ({
          audience: resource, scope: 'notes:read notes:write read', accessTokenFormat: /^http:\/\/localhost:|\/opaque$/.test(resource) ? 'opaque' : 'jwt',
        }),
      },
    },
    extraTokenClaims: () => ({ realm_access: { roles: ['staff'] } }),
    findAccount: (ctx, sub) => (removed.has(sub) ? undefined : {
      accountId: sub,
      claims: () => ({ sub, name: `Reader ${sub}`, email: `${sub}@example.com`, email_verified: true, groups: sub === 'guest' ? [] : ['staff'] }),
    }),
  });
  handle = provider.callback();
};
rotate();
server.on('request', (request, response) => handle(request, response));

console.warn = console.info = console.log = () => {};
const say = (line) => process.stdout.write(`${line}\n`);
say(issuer);
const commands = {
  rotate,
  forget: () => { for (const key of records.keys()) if (key.startsWith('RefreshToken:')) records.delete(key); },
  remove: (name) => { removed.add(name); },
  down: () => new Promise((closed) => {
    const idle = setInterval(() => server.closeIdleConnections(), 5); // what has begun is answered
    server.close(() => { clearInterval(idle); closed(); });
  }),
  up: () => server.listening || new Promise((listening) => { server.listen(new URL(issuer).port, '127.0.0.1', listening); }),
};
for await (const line of createInterface({ input: process.stdin })) {
  const [command, name] = line.split(' ');
  await commands[command](name);
  say(line);
}
process.exit(0);
