// Checks an access token by its signature and claims (RFC 9068 section 4).
import { createRemoteJWKSet, errors, jwtVerify } from 'jose'

export const resource = process.env.RESOURCE! // exactly the URL that clients dial
export const issuer = process.env.ISSUER! // exactly as its metadata spells it
if (!resource || !issuer) throw new Error('set RESOURCE and ISSUER')

export type Caller = { subject: string; client: string; scopes: Set<string> }

// InvalidToken is the fault of the token: 401. Any other error is not: 503.
export class InvalidToken extends Error {}

// Keys are kept for ten minutes. A token that names an unknown key has them fetched once
// more, but not within 30 seconds of the last time: anybody can name a key.
const keys = createRemoteJWKSet(new URL(`${issuer}/jwks.json`), { cacheMaxAge: 600_000, cooldownDuration: 30_000 })

// The signature of ES256 has 64 bytes, and one spelling: its last character holds two bits.
const jws = /^[\w-]+\.[\w-]+\.[\w-]{85}[AQgw]$/

export async function verify(token: string): Promise<Caller> {
  if (token.length > 8192 || !jws.test(token)) throw new InvalidToken('no JWS')
  const { payload, protectedHeader } = await jwtVerify(token, keys, {
    algorithms: ['ES256'], // never what the token says
    typ: 'at+jwt', // no ID token, no assertion
    issuer,
    audience: resource, // issued for this server
    requiredClaims: ['exp'], // without it, jose lets a token live for ever
    maxTokenAge: 86400, // with it, jose wants iat
    clockTolerance: 10, // seconds that the clocks may differ
  }).catch((error) => {
    throw faults.some((fault) => error instanceof fault) ? new InvalidToken(error.message) : error
  })
  if (Object.keys(protectedHeader).some((name) => !['alg', 'kid', 'typ'].includes(name))) {
    throw new InvalidToken('keys or extensions of its own')
  }
  const { sub, client_id: client, scope = '' } = payload
  if (!sub || typeof sub !== 'string' || !client || typeof client !== 'string' || typeof scope !== 'string') {
    throw new InvalidToken('sub, client_id and scope must be strings')
  }
  if (!(payload.exp! - payload.iat! <= 86400)) throw new InvalidToken('lives for more than a day')
  if ('cnf' in payload) throw new InvalidToken('bound to a key, so no bearer token')
  return { subject: sub, client, scopes: new Set(scope.split(' ')) }
}

const faults = [
  errors.JWSInvalid, errors.JWTInvalid, errors.JOSEAlgNotAllowed, errors.JOSENotSupported,
  errors.JWKSNoMatchingKey, errors.JWKSMultipleMatchingKeys, errors.JWSSignatureVerificationFailed,
  errors.JWTClaimValidationFailed, errors.JWTExpired,
]
