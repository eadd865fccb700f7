// Verifies the assertions of a gateway with --identity assertion. It needs nothing but Node.
import { createHash, createPublicKey, verify } from 'node:crypto';

const MAX_AGE = 60_000; // milliseconds for which keys are used before they are fetched again
const PAUSE = 5_000; // between two attempts: anybody can name an unknown key

/** The keys at /jwks.json of the gateway, by id. */
export class Keys {
  #url; #keys = new Map(); #fetched = -Infinity; #tried = -Infinity;

  constructor(url) { this.#url = url; }

  async get(kid) {
    const now = performance.now();
    if ((now - this.#fetched > MAX_AGE || !this.#keys.has(kid)) && now - this.#tried > PAUSE) {
      this.#tried = now;
      const { keys } = await (await fetch(this.#url)).json();
      this.#keys = new Map(keys.map((jwk) => [jwk.kid, createPublicKey({ key: jwk, format: 'jwk' })]));
      this.#fetched = now;
    }
    const key = this.#keys.get(kid);
    if (!key) throw new Error('unknown key');
    return key;
  }
}

const decode = (part) => JSON.parse(Buffer.from(part, 'base64url').toString());

/** Returns the claims of an assertion, or throws. The audience is the upstream as the gateway spells it. */
export async function assertion(jwt, audience, keys) {
  const [header, payload, signature, ...more] = String(jwt).split('.');
  if (!signature || more.length > 0) throw new Error('no JWS');
  const { alg, typ, kid } = decode(header);
  if (alg !== 'ES256' || typ !== 'gatehouse-assertion+jwt') throw new Error('no assertion');
  const key = { key: await keys.get(kid), dsaEncoding: 'ieee-p1363' };
  if (!verify('sha256', Buffer.from(`${header}.${payload}`), key, Buffer.from(signature, 'base64url'))) throw new Error('wrong signature');
  const claims = decode(payload);
  const now = Date.now() / 1000;
  if (claims.aud !== audience) throw new Error('for another server');
  if (!(claims.exp > now - 10 && claims.iat < now + 10)) throw new Error('expired'); // clocks may differ by ten seconds
  return claims;
}

/** Throws unless an assertion is about this request: with --assertion-binding request. */
export function boundTo(claims, method, target, body) {
  const digest = createHash('sha256').update(body).digest('base64url');
  if (claims.request_method !== method) throw new Error('another method');
  if (claims.request_target !== target) throw new Error('another path or query');
  if (claims.request_body_sha256 !== digest) throw new Error('another body');
}
