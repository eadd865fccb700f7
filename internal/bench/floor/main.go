// Command floor is the least that an authorization server must cost: it parses, reads and writes
// once by one script of Redis, and signs once. It checks nothing, so it is of use to nobody but
// internal/bench, which divides by its figures.
package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8089", "address")
	database := flag.String("redis", "", "URL of Redis; without it records are in memory")
	grants := flag.Int("fill", 0, "store so many grants, with the refresh tokens n0.first, n1.first and so on, and end")
	flag.Parse()
	if err := run(*listen, *database, *grants); err != nil {
		log.Fatal(err)
	}
}

func run(listen, database string, grants int) error {
	f, err := newFloor(database)
	switch {
	case err != nil:
		return err
	case grants > 0:
		return f.records.fill("grant:n", grants, hash("first"), grantLife)
	}
	return http.ListenAndServe(listen, f.routes())
}

const grantLife = 30 * 24 * time.Hour

type floor struct {
	records records
	key     *ecdsa.PrivateKey
}

func newFloor(database string) (*floor, error) {
	records, err := openRecords(database)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return &floor{records: records, key: key}, err
}

func (f *floor) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", f.metadata)
	mux.HandleFunc("GET /authorize", f.authorize)
	mux.HandleFunc("POST /token", f.token)
	mux.HandleFunc("POST /introspect", f.introspect)
	mux.HandleFunc("POST /register", f.register)
	return mux
}

var document = []byte(`{"issuer":"https://auth.example.com","authorization_endpoint":"https://auth.example.com/authorize",` +
	`"token_endpoint":"https://auth.example.com/token","registration_endpoint":"https://auth.example.com/register",` +
	`"introspection_endpoint":"https://auth.example.com/introspect","response_types_supported":["code"],` +
	`"grant_types_supported":["authorization_code","refresh_token"],"code_challenge_methods_supported":["S256"]}`)

func (f *floor) metadata(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, document) }

// record is as long as a grant needs at least: client, person, scopes, two hashes and times.
var record = bytes.Repeat([]byte{'r'}, 200)

// authorize writes a code without asking anybody, and redirects.
func (f *floor) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	code := random()
	if err := f.records.swap(r, "code:"+code, "", q.Get("code_challenge")+string(record), time.Hour); err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Location", q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode())
	w.WriteHeader(http.StatusSeeOther)
}

// token redeems a code or rotates a refresh token: a key and a secret, of which the hash is kept.
func (f *floor) token(w http.ResponseWriter, r *http.Request) {
	body, err := form(r)
	if err != nil {
		refuse(w, err)
		return
	}
	grant, secret := random(), random()
	var was string
	if code := body.Get("code"); code != "" {
		sum := sha256.Sum256([]byte(body.Get("code_verifier")))
		err = f.records.redeem(r, "code:"+code, base64.RawURLEncoding.EncodeToString(sum[:])+string(record), "grant:"+grant, hash(secret))
	} else {
		grant, was, _ = strings.Cut(body.Get("refresh_token"), ".")
		err = f.records.swap(r, "grant:"+grant, hash(was), hash(secret), grantLife)
	}
	var access []byte
	if err == nil {
		access, err = f.sign()
	}
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, fmt.Appendf(nil, `{"access_token":"%s","token_type":"Bearer","expires_in":600,"refresh_token":"%s.%s"}`, access, grant, secret))
}

// introspect reads a record.
func (f *floor) introspect(w http.ResponseWriter, r *http.Request) {
	body, err := form(r)
	if err == nil {
		err = f.records.read(r, "token:"+hash(body.Get("token"))[:43])
	}
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, []byte(`{"active":true,"scope":"notes:read notes:write","client_id":"client","sub":"subject","token_type":"Bearer"}`))
}

// register keeps what it is sent, as long as it is JSON's beginning.
func (f *floor) register(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	id := random()
	if err == nil {
		err = f.records.swap(r, "client:"+id, "", string(body), time.Hour)
	}
	if err != nil || len(body) < 2 {
		refuse(w, err)
		return
	}
	answer(w, http.StatusCreated, append([]byte(`{"client_id":"`+id+`",`), body[1:]...))
}

// claims are those of an access token (RFC 9068) of usual length.
const claims = `{"iss":"https://auth.example.com","exp":%d,"aud":"https://notes.example.com/mcp","sub":"0123456789abcdefghijkl",` +
	`"client_id":"0123456789abcdefghijkl","iat":%d,"jti":"%s","scope":"notes:read notes:write"}`

var header = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"0123456789abcdefghijklmnopqrstuvwxyzABCDEFG","typ":"at+jwt"}`))

// sign makes an access token with one signature.
func (f *floor) sign() ([]byte, error) {
	now := time.Now().Unix()
	token := append([]byte(header), '.')
	token = base64.RawURLEncoding.AppendEncode(token, fmt.Appendf(nil, claims, now+600, now, random()))
	sum := sha256.Sum256(token)
	der, err := f.key.Sign(nil, sum[:], crypto.SHA256) // RFC 6979, which takes the least time
	if err != nil {
		return nil, err
	}
	var numbers struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &numbers); err != nil {
		return nil, err
	}
	signature := make([]byte, 64)
	numbers.R.FillBytes(signature[:32])
	numbers.S.FillBytes(signature[32:])
	return base64.RawURLEncoding.AppendEncode(append(token, '.'), signature), nil
}

func form(r *http.Request) (url.Values, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	if err != nil {
		return nil, err
	}
	return url.ParseQuery(string(body))
}

func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// hash is the record of a grant with the hash of its secret in it.
func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return base64.RawURLEncoding.EncodeToString(sum[:]) + string(record)
}

func answer(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func refuse(w http.ResponseWriter, err error) {
	http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
}
