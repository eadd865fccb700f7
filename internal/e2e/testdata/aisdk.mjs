// Connects the client of @ai-sdk/mcp to a protected server, as a program of a person would.
//
//   CLIENT_LIBRARIES=FOLDER node aisdk.mjs SERVER REDIRECT
//
// FOLDER is where the package is installed. Standard input and output are used like those
// of typescript.mjs.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const require = createRequire(`${process.env.CLIENT_LIBRARIES}/`);
const { auth, createMCPClient, UnauthorizedError } = await import(pathToFileURL(require.resolve('@ai-sdk/mcp')));

const [server, redirectUrl] = process.argv.slice(2);
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const report = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

const kept = {};
const authProvider = {
  redirectUrl,
  clientMetadata: {
    client_name: 'AI SDK',
    redirect_uris: [redirectUrl],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  },
  state: () => crypto.randomUUID(),
  saveState: (state) => { kept.state = state; },
  storedState: () => kept.state,
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  authorizationServerInformation: () => kept.server,
  saveAuthorizationServerInformation: (information) => { kept.server = information; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  redirectToAuthorization: (page) => { kept.page = page; },
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  codeVerifier: () => kept.verifier,
};
const connect = () => createMCPClient({ transport: { type: 'http', url: server, authProvider } });

try {
  await connect();
  throw new Error('connected without a token');
} catch (error) {
  if (!(error instanceof UnauthorizedError) && !kept.page) throw error;
}
report({ open: kept.page.href });
const answer = new URL((await answers.next()).value).searchParams;
await auth(authProvider, {
  serverUrl: server, authorizationCode: answer.get('code'), callbackState: answer.get('state'), callbackIssuer: answer.get('iss'),
});

const client = await connect();
report({ connected: kept.tokens.scope });
const tools = await client.tools();
report({ tools: Object.keys(tools).sort() });
const call = async (name, args) => (await client.callTool({ name, arguments: args })).structuredContent;
report({ added: await call('add_note', { text: 'milk' }) });

// When the server refuses the token, the client refreshes and tries again.
const before = kept.tokens;
kept.tokens = { ...before, access_token: `${before.access_token.slice(0, -8)}AAAAAAAA` };
report({ listed: await call('list_notes', {}), rotated: kept.tokens.refresh_token !== before.refresh_token });
await client.close();
process.exit(0);
