// Answers what a protected server must (RFC 6750, RFC 9728) and lets the rest through.
import type { NextFunction, Request, RequestHandler, Response } from 'express'
import { type Caller, InvalidToken, issuer, resource } from './jwt.ts'

// What each tool needs. A tool that is not named here is refused.
const tools = new Map([
  ['list_notes', ['notes:read']],
  ['add_note', ['notes:write']],
])
const scopes = [...new Set([...tools.values()].flat())]

export const path = new URL(resource).pathname
// The well-known part stands between the host and the path (RFC 9728 section 3.1).
export const metadataPath = '/.well-known/oauth-protected-resource' + (path === '/' ? '' : path)
const metadataURL = new URL(metadataPath, resource).href

export const metadata: RequestHandler = (_, res) => {
  res.json({ resource, authorization_servers: [issuer], scopes_supported: scopes, bearer_methods_supported: ['header'] })
}

// authenticate finds out who calls, before the body is read.
export const authenticate = (verify: (token: string) => Promise<Caller>) => async (req: Request, res: Response, next: NextFunction) => {
  const headers = req.headersDistinct.authorization ?? []
  if (headers.length === 0) return refuse(res, 401)
  const token = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i.exec(headers[0])?.[1]
  // A token in the URL ends up in logs (RFC 6750 section 5.3).
  if (headers.length > 1 || !token || 'access_token' in req.query) return refuse(res, 400, 'invalid_request')
  try {
    res.locals.caller = await verify(token)
  } catch (error) {
    if (error instanceof InvalidToken) return refuse(res, 401, 'invalid_token')
    console.error('the issuer cannot be asked:', error)
    return res.status(503).set('Retry-After', '5').end() // a client throws its token away at 401
  }
  next()
}

// authorize judges the message. The body must be the object that the server gets too:
// read once, whatever the content type says.
export const authorize: RequestHandler = (req, res, next) => {
  const message = req.body
  if (typeof message !== 'object' || Array.isArray(message)) return refuse(res, 400, 'invalid_request')
  if (message.method !== 'tools/call') return next() // any valid token
  const needed = tools.get(message.params?.name)
  if (!needed) return refuse(res, 403)
  const { scopes } = res.locals.caller as Caller
  if (!needed.every((scope) => scopes.has(scope))) return refuse(res, 403, 'insufficient_scope', needed)
  next()
}

function refuse(res: Response, status: number, error?: string, needed = scopes) {
  if (status === 401 || error) {
    const code = error ? `error="${error}", ` : ''
    res.set('WWW-Authenticate', `Bearer ${code}scope="${needed.join(' ')}", resource_metadata="${metadataURL}"`)
  }
  res.status(status).end()
}
