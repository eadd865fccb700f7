// Checks an access token as jwt.ts does, and then asks the issuer whether it was revoked
// (RFC 7662). The signature comes first, so only tokens of the issuer cause a request.
import { type Caller, InvalidToken, issuer, resource, verify as verifySignature } from './jwt.ts'

const id = process.env.INTROSPECTION_CLIENT_ID ?? resource
const secret = process.env.INTROSPECTION_SECRET ?? ''
const form = (text: string) => new URLSearchParams([['', text]]).toString().slice(1) // RFC 6749 section 2.3.1
const credentials = Buffer.from(`${form(id)}:${form(secret)}`).toString('base64')

export async function verify(token: string): Promise<Caller> {
  const caller = await verifySignature(token)
  const response = await fetch(`${issuer}/introspect`, {
    method: 'POST',
    headers: { Authorization: `Basic ${credentials}` },
    body: new URLSearchParams({ token }),
    redirect: 'error', // the credentials are for the issuer
    signal: AbortSignal.timeout(5000),
  })
  if (!response.ok) throw new Error(`the issuer answers ${response.status}`)
  if ((await response.json()).active !== true) throw new InvalidToken('not active')
  return caller
}
