// Connects the official TypeScript SDK's client to a protected server, as a program of a
// person would.
//
//   TYPESCRIPT_SDK=FOLDER node typescript.mjs SERVER REDIRECT
//
// FOLDER is where the SDK is installed. Each line on standard output is JSON: {"open":URL}
// asks that somebody opens a page, and the next line on standard input is the address that
// they ended up at; the other lines report what happened.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const require = createRequire(`${process.env.TYPESCRIPT_SDK}/`);
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
const { UnauthorizedError } = require('@modelcontextprotocol/sdk/client/auth.js');

const [server, redirectUrl] = process.argv.slice(2);
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const report = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

// The provider keeps what the flow learns. It opens no browser.
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
  state: () => crypto.randomUUID(),
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  redirectToAuthorization: (page) => { kept.page = page; },
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  codeVerifier: () => kept.verifier,
};

// What the client asked the token endpoint for.
const grants = [];
const watched = (url, init) => {
  if (init?.body instanceof URLSearchParams) grants.push(init.body.get('grant_type'));
  return fetch(url, init);
};

const newClient = () => new Client({ name: 'e2e', version: '1' });
const newTransport = () => new StreamableHTTPClientTransport(new URL(server), { authProvider, fetch: watched });

// Without a token the client finds the way to the page that the person must open.
const refused = newTransport();
try {
  await newClient().connect(refused);
  throw new Error('connected without a token');
} catch (error) {
  if (!(error instanceof UnauthorizedError)) throw error;
}
report({ open: kept.page.href });
const answer = new URL((await answers.next()).value).searchParams;
if (answer.get('state') !== kept.page.searchParams.get('state')) throw new Error('another state came back');
await refused.finishAuth(answer.get('code'));

const client = newClient();
const transport = newTransport();
await client.connect(transport);
const call = async (name, args) => (await client.callTool({ name, arguments: args })).structuredContent;
report({ connected: kept.tokens.scope, session: transport.sessionId !== undefined });
report({ tools: (await client.listTools()).tools.map((tool) => tool.name).sort() });
report({ added: await call('add_note', { text: 'milk' }) });

// When the server refuses the token, the client refreshes and tries again.
const before = kept.tokens;
kept.tokens = { ...before, access_token: `${before.access_token.slice(0, -8)}AAAAAAAA` };
report({ listed: await call('list_notes', {}), rotated: kept.tokens.refresh_token !== before.refresh_token });
report({ grants });
await transport.terminateSession();
await client.close();
process.exit(0);
