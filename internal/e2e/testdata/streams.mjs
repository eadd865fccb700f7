// A server of the official TypeScript SDK whose streams break off and can be resumed, and a
// client of the same SDK that reaches it through a gateway.
//
//   TYPESCRIPT_SDK=FOLDER node streams.mjs
//
// FOLDER is where the SDK is installed. The first line on standard output is the port of the
// server; the first line on standard input says where the gateway is and holds a token. The
// other lines on standard output report what happened.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const require = createRequire(`${process.env.TYPESCRIPT_SDK}/`);
const { McpServer } = require('@modelcontextprotocol/sdk/server/mcp.js');
const { StreamableHTTPServerTransport } = require('@modelcontextprotocol/sdk/server/streamableHttp.js');
const { SSEServerTransport } = require('@modelcontextprotocol/sdk/server/sse.js');
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
const { SSEClientTransport } = require('@modelcontextprotocol/sdk/client/sse.js');

const report = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

// The store finds a stream by the id of an event alone, whoever asks.
const events = [];
const eventStore = {
  storeEvent: async (stream, message) => `${stream}_${events.push({ stream, message })}`,
  getStreamIdForEventId: async (id) => id.slice(0, id.lastIndexOf('_')),
  replayEventsAfter: async (id, { send }) => {
    const stream = id.slice(0, id.lastIndexOf('_'));
    for (let i = Number(id.slice(id.lastIndexOf('_') + 1)); i < events.length; i++) {
      if (events[i].stream === stream) await send(`${stream}_${i + 1}`, events[i].message);
    }
    return stream;
  },
};

const tools = () => {
  const server = new McpServer({ name: 'streams', version: '1' });
  server.tool('slow', {}, async (_, extra) => {
    extra.closeSSEStream();
    await new Promise((done) => { setTimeout(done, 50); });
    return { content: [{ type: 'text', text: 'resumed' }] };
  });
  server.tool('hidden', {}, async () => ({ content: [] }));
  return server;
};

const sessions = new Map();
const resumed = [];
const server = createServer(async (req, res) => {
  if (req.url.startsWith('/mcp/old')) {
    await tools().connect(new SSEServerTransport('/mcp/old/messages', res));
    return;
  }
  if (req.headers['last-event-id']) resumed.push(req.headers['last-event-id']);
  let transport = sessions.get(req.headers['mcp-session-id']);
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID, eventStore, retryInterval: 10,
      onsessioninitialized: (id) => { sessions.set(id, transport); },
    });
    await tools().connect(transport);
  }
  await transport.handleRequest(req, res);
});
server.listen(0, '127.0.0.1', () => report(server.address().port));

const [line] = await createInterface({ input: process.stdin })[Symbol.asyncIterator]().next().then((next) => [next.value]);
const { url, token } = JSON.parse(line);
const requestInit = { headers: { Authorization: `Bearer ${token}` } };

const client = new Client({ name: 'streams', version: '1' });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
report({ tools: (await client.listTools()).tools.map((tool) => tool.name) });
report({ slow: (await client.callTool({ name: 'slow' })).content[0].text });
report({ resumed: resumed.length > 0 && resumed.every((id) => !id.includes('.')) });
await client.close();

const old = new Client({ name: 'streams', version: '1' });
await old.connect(new SSEClientTransport(new URL(`${url}/old`), { requestInit }))
  .then(() => report({ old: 'connected' }), (error) => report({ old: error.code ?? error.event?.code }));
process.exit();
