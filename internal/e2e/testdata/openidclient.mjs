// Connects openid-client to a protected server: it reads both documents of the authorization
// server, registers, signs in, refreshes and revokes, and compares each answer with the standards.
//
//   CLIENT_LIBRARIES=FOLDER node openidclient.mjs SERVER REDIRECT
//
// FOLDER is where the package is installed. Standard input and output are used like those
// of typescript.mjs.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const require = createRequire(`${process.env.CLIENT_LIBRARIES}/`);
const client = await import(pathToFileURL(require.resolve('openid-client')));

const [server, redirect] = process.argv.slice(2);
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const report = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const loopback = { execute: [client.allowInsecureRequests] };

// list asks for the tools with a token, and returns the status of the answer.
const list = async (token) => (await fetch(server, {
  method: 'POST',
  headers: {
    authorization: `Bearer ${token}`, accept: 'application/json, text/event-stream', 'content-type': 'application/json',
    'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list',
  },
  body: JSON.stringify({
    jsonrpc: '2.0', id: 1, method: 'tools/list',
    params: { _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} } },
  }),
})).status;

const challenge = (await fetch(server, { method: 'POST' })).headers.get('www-authenticate');
const { resource, authorization_servers: [issuer], scopes_supported: scopes } =
  await (await fetch(/resource_metadata="([^"]+)"/.exec(challenge)[1])).json();

const metadata = {
  none: { token_endpoint_auth_method: 'none' },
  basic: { token_endpoint_auth_method: 'client_secret_basic' },
  post: { token_endpoint_auth_method: 'client_secret_post' },
};
for (const [algorithm, kind] of [['oauth2', 'none'], ['oidc', 'basic'], ['oauth2', 'post']]) {
  const registered = (await client.dynamicClientRegistration(new URL(issuer), {
    client_name: 'openid-client', redirect_uris: [redirect], grant_types: ['authorization_code', 'refresh_token'], ...metadata[kind],
  }, client.None(), { ...loopback, algorithm })).clientMetadata();
  const secret = registered.client_secret;
  const proof = { none: client.None(), basic: client.ClientSecretBasic(secret), post: client.ClientSecretPost(secret) }[kind];
  const config = await client.discovery(new URL(issuer), registered.client_id, undefined, proof, { ...loopback, algorithm });

  const pkceCodeVerifier = client.randomPKCECodeVerifier();
  const expectedState = client.randomState();
  report({ open: client.buildAuthorizationUrl(config, {
    redirect_uri: redirect, scope: scopes.join(' '), resource, state: expectedState,
    code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier), code_challenge_method: 'S256',
  }).href });
  const answer = new URL((await answers.next()).value);
  const first = await client.authorizationCodeGrant(config, answer, { pkceCodeVerifier, expectedState }, { resource });
  const second = await client.refreshTokenGrant(config, first.refresh_token, { resource });
  report({ [kind]: second.scope, called: await list(second.access_token), rotated: second.refresh_token !== first.refresh_token });
  await client.tokenRevocation(config, second.refresh_token);
  const refused = await client.refreshTokenGrant(config, second.refresh_token).catch((error) => error.error);
  report({ revoked: refused });
}
process.exit(0);
