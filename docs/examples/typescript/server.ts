// A protected notes server. Node 22.18 or later runs it as it is: node server.ts
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import express, { type ErrorRequestHandler } from 'express'
import { z } from 'zod'
import { authenticate, authorize, metadata, metadataPath, path } from './guard.ts'
import { type Caller } from './jwt.ts'

const { verify } = await import(process.env.INTROSPECTION_SECRET ? './introspection.ts' : './jwt.ts')
const notes = new Map<string, string[]>() // by subject

function server({ subject }: Caller) {
  const server = new McpServer({ name: 'notes', version: '1.0.0' })
  const own = notes.get(subject) ?? []
  const text = (text: string) => ({ content: [{ type: 'text' as const, text }] })
  server.registerTool('list_notes', {}, () => text(own.join('\n')))
  server.registerTool('add_note', { inputSchema: { text: z.string().max(1000) } }, ({ text: note }) => {
    notes.set(subject, [...own, note].slice(-100))
    return text('added')
  })
  return server
}

const app = express()
app.get(metadataPath, metadata)
app.use(path, authenticate(verify))
app.post(path, express.json({ type: () => true }), authorize, async (req, res) => {
  // A server for each request, and no session: whose a session is would have to be checked.
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true })
  res.on('close', () => transport.close())
  await server(res.locals.caller).connect(transport)
  await transport.handleRequest(req, res, req.body)
})
app.all(path, (_, res) => { res.status(405).set('Allow', 'POST').end() })
app.use(((error, _req, res, _next) => { res.status(error.status ?? 500).end() }) satisfies ErrorRequestHandler)
app.listen(Number(process.env.PORT ?? 9000), '127.0.0.1')
