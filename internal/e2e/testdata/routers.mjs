// A server that answers with the pattern of the route that it finds: routers.mjs KIND PATTERNS
// where PATTERNS is a JSON array in the syntax of http.ServeMux, the closest ones first.
import http from 'node:http'
import { createRequire } from 'node:module'
const require = createRequire(process.cwd() + '/')
const [kind, text] = process.argv.slice(2)
const routes = JSON.parse(text).map((name) => {
  const [, method, path] = /^(?:([A-Z]+) )?(.*)$/.exec(name)
  return { name, method, path }
})
const regex = (path) => path.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{\w+\\\.\\\.\\\.\}/g, '.*').replace(/\{\w+\}/g, '[^/]+').replace(/\/$/, '/.*')
const byRegex = (flags, read) => {
  const table = routes.map((r) => ({ ...r, look: new RegExp('^' + regex(r.path) + '/?$', flags) }))
  return (request, response) => {
    let path
    try { path = read(request.url) } catch { path = '' }
    const method = request.method === 'HEAD' ? 'GET' : request.method
    const found = table.find((r) => (!r.method || r.method === method) && r.look.test(path))
    response.setHeader('X-Route', found ? found.name : '-').end()
  }
}
const kinds = {
  // What programs without a router write.
  url: () => byRegex('', (target) => decodeURIComponent(new URL(target, 'http://localhost').pathname)),
  lower: () => byRegex('', (target) => decodeURIComponent(target.split('?')[0]).toLowerCase()),
  upper: () => byRegex('i', (target) => decodeURIComponent(target.split('?')[0]).toUpperCase()),
  anycase: () => byRegex('iu', (target) => decodeURIComponent(target.split('?')[0])),
  trimmed: () => byRegex('iu', (target) => decodeURIComponent(target.split('?')[0]).trim()),
  compatible: () => byRegex('iu', (target) => decodeURIComponent(target.split('?')[0]).normalize('NFKC')),
  express: () => {
    const app = require('express')()
    for (const r of routes) {
      const path = r.path.replace(/:/g, '\\:').replace(/\{(\w+)\.\.\.\}/g, '*$1').replace(/\{(\w+)\}/g, ':$1').replace(/(.)\/$/, '$1{/*rest}')
      app[r.method ? r.method.toLowerCase() : 'all'](path, (_, response) => response.set('X-Route', r.name).end())
    }
    return app
  },
  hono: () => {
    const { Hono } = require('hono')
    const app = new Hono()
    for (const r of routes) {
      const path = r.path.replace(/\{(\w+)\.\.\.\}/g, '*').replace(/\{(\w+)\}/g, ':$1').replace(/\/$/, '/*')
      app.on(r.method || ['GET', 'POST', 'PUT', 'DELETE', 'PATCH'], path, () => new Response('', { headers: { 'X-Route': r.name } }))
    }
    return require('@hono/node-server').getRequestListener(app.fetch)
  },
}
const server = http.createServer(kinds[kind]())
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
