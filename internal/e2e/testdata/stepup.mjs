// Has an official TypeScript client call tools that its token may not cover.
//
//   TYPESCRIPT_SDK=FOLDER node stepup.mjs PACKAGE SERVER REDIRECT GRANTS CALL...
//
// FOLDER is where PACKAGE is installed: @modelcontextprotocol/sdk or, since version 2 of the
// SDK, @modelcontextprotocol/client. GRANTS are the grant types that the client registers
// for, with commas between them, and each CALL is the JSON of the parameters of a call.
// Standard input and output are used like those of typescript.mjs.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [name, server, redirectUrl, grantTypes, ...calls] = process.argv.slice(2);
const require = createRequire(`${process.env.TYPESCRIPT_SDK}/`);
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = name.endsWith('/sdk')
  ? { ...require(`${name}/client/index.js`), ...require(`${name}/client/streamableHttp.js`), ...require(`${name}/client/auth.js`) }
  : require(name);

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const report = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

const kept = {};
const authProvider = {
  redirectUrl,
  clientMetadata: {
    client_name: 'TypeScript SDK',
    redirect_uris: [redirectUrl],
    grant_types: grantTypes.split(','),
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

// What the server refused, and what the client asked the token endpoint for.
const refusals = [];
const grants = [];
const watched = async (url, init) => {
  if (init?.body instanceof URLSearchParams) grants.push(init.body.get('grant_type'));
  const response = await fetch(url, init);
  if (response.status === 403) refusals.push(/error="(\w*)"/.exec(response.headers.get('www-authenticate'))?.[1]);
  return response;
};

const newClient = () => new Client({ name: 'e2e', version: '1' });
const newTransport = () => new StreamableHTTPClientTransport(new URL(server), { authProvider, fetch: watched });

// Has a person allow what the client asks for.
let transport;
const authorize = async () => {
  report({ asked: kept.page.searchParams.get('scope'), refusals });
  report({ open: kept.page.href });
  const answer = new URL((await answers.next()).value).searchParams;
  if (answer.get('state') !== kept.page.searchParams.get('state')) throw new Error('another state came back');
  await transport.finishAuth(answer.get('code'), answer.get('iss'));
  report({ granted: kept.tokens.scope });
};

// Does something, and once more after a person allowed it if it needs that.
const allowed = async (action) => {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
  }
  await authorize();
  return action();
};

let client;
await allowed(() => {
  client = newClient();
  transport = newTransport();
  return client.connect(transport);
});
for (const call of calls.map((text) => JSON.parse(text))) {
  const { structuredContent, content } = await allowed(() => client.callTool(call));
  report({ [call.name]: structuredContent?.scopes ?? structuredContent ?? content[0].text });
}
report({ grants });
await transport.terminateSession();
await client.close();
process.exit(0);
