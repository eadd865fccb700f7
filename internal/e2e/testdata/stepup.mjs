// Has an official TypeScript client call a tool that its token does not cover.
//
//   TYPESCRIPT_SDK=FOLDER node stepup.mjs PACKAGE SERVER REDIRECT GRANT...
//
// FOLDER is where PACKAGE is installed: @modelcontextprotocol/sdk or, since version 2 of the
// SDK, @modelcontextprotocol/client. GRANT are the grant types that the client registers for.
// Standard input and output are used like those of typescript.mjs.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [name, server, redirectUrl, ...grantTypes] = process.argv.slice(2);
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
    grant_types: grantTypes,
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

// Does something that needs a person first, and brings what the person answers.
const authorized = async (transport, action) => {
  try {
    await action();
    throw new Error('nobody was asked');
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
  }
  report({ asked: kept.page.searchParams.get('scope'), refusals });
  report({ open: kept.page.href });
  const answer = new URL((await answers.next()).value).searchParams;
  if (answer.get('state') !== kept.page.searchParams.get('state')) throw new Error('another state came back');
  await transport.finishAuth(answer.get('code'), answer.get('iss'));
  report({ granted: kept.tokens.scope });
};

const refused = newTransport();
await authorized(refused, () => newClient().connect(refused));

const client = newClient();
const transport = newTransport();
await client.connect(transport);
const call = async (tool, args) => (await client.callTool({ name: tool, arguments: args })).structuredContent;
report({ scopes: (await call('whoami', {})).scopes });
await authorized(transport, () => call('add_note', { text: 'milk' }));
report({ added: await call('add_note', { text: 'milk' }) });
report({ scopes: (await call('whoami', {})).scopes });
report({ grants });
process.exit(0);
