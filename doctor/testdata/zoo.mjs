// Connects the official TypeScript SDK's client, without a token, to each server of the zoo.
//
//   TYPESCRIPT_SDK=FOLDER node zoo.mjs BRIDGE TARGET COUNT
//
// BRIDGE/N?url=URL answers for the URL at the server N. For each server a line is printed: N, a
// space, and "arrived" if the client would open the browser, else why it stopped.
const [bridge, target, count] = process.argv.slice(2);
const folder = `${process.env.TYPESCRIPT_SDK}/node_modules/@modelcontextprotocol/client/dist/index.mjs`;
const { Client, StreamableHTTPClientTransport } = await import(folder);
const redirectUrl = 'http://127.0.0.1:41999/callback';

for (let n = 0; n < Number(count); n += 1) {
  const kept = {};
  const authProvider = {
    redirectUrl,
    clientMetadata: {
      client_name: 'TypeScript SDK',
      redirect_uris: [redirectUrl],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    },
    clientInformation: () => kept.client,
    saveClientInformation: (client) => { kept.client = client; },
    tokens: () => undefined,
    saveTokens: () => {},
    redirectToAuthorization: (page) => { kept.page = page; },
    saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
    codeVerifier: () => kept.verifier,
  };
  const through = (url, init) => fetch(`${bridge}/${n}?url=${encodeURIComponent(url)}`, init);
  const client = new Client({ name: 'zoo', version: '1' });
  let why = 'connected';
  try {
    await client.connect(new StreamableHTTPClientTransport(new URL(target), { authProvider, fetch: through }));
  } catch (error) {
    why = `${error.name}: ${error.message}`;
  }
  process.stdout.write(`${n} ${kept.page ? 'arrived' : why.replaceAll(/\s+/g, ' ').slice(0, 200)}\n`);
}
process.exit(0);
