package authz

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
)

// Whoever is not signed in must not fill the store, so a transaction stays in the browser
// that it belongs to, sealed, in a cookie of its own whose name ends in its id: two pages
// that open at once do not overwrite each other. See [storage.Store.SealTransaction].
const keptCookie = "authz_transaction_"

const (
	// maxKept bounds one such cookie in characters. Browsers take 4096 with the name and
	// attributes (RFC 6265 section 6.1), but a proxy that keeps its defaults (nginx:
	// proxy_buffer_size 4k) wants all headers of an answer within 4 KiB.
	maxKept = 2400
	// maxKeptTogether bounds the names and values of all of them: the headers of a request
	// must stay below 8 KiB for servers that share our host. The oldest make room.
	maxKeptTogether = 5 << 10
	// maxLetGo bounds how many go at a time, because each takes a header.
	maxLetGo = 4
)

// keep gives the browser a transaction to keep. One that is too large is stored.
func (s *Server) keep(w http.ResponseWriter, r *http.Request, t storage.Transaction) error {
	sealed, err := s.cfg.Store.SealTransaction(t)
	if err != nil {
		return err
	}
	value := strconv.FormatInt(t.Created.Unix(), 36) + "." + base64.RawURLEncoding.EncodeToString(sealed)
	if len(value) > maxKept {
		return s.keepHere(r, t)
	}
	name := s.cookies.name(keptCookie + t.ID)
	s.makeRoom(w, r, len(name)+len(value))
	s.cookies.set(w, keptCookie+t.ID, value, transactionTTL)
	return nil
}

// kept returns what the browser keeps of a transaction, nil if nothing. Two cookies of one
// name are none.
func (s *Server) kept(r *http.Request, id string) []byte {
	found := r.CookiesNamed(s.cookies.name(keptCookie + id))
	if len(found) != 1 || len(found[0].Value) > maxKept {
		return nil
	}
	_, sealed, _ := strings.Cut(found[0].Value, ".")
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return nil
	}
	return raw
}

// letGo has the browser forget what a cookie keeps.
func (s *Server) letGo(w http.ResponseWriter, r *http.Request, name string) {
	if len(r.CookiesNamed(name)) > 0 {
		http.SetCookie(w, &http.Cookie{Name: name, Path: "/", MaxAge: -1, HttpOnly: true, Secure: s.cookies.secure, SameSite: http.SameSiteLaxMode})
	}
}

// keptOne is a transaction that a browser keeps, as far as its cookie shows. Only its own
// browser could have changed that.
type keptOne struct {
	name   string
	began  int64
	length int
}

// makeRoom lets the oldest transactions go until one of a length fits beside the others.
func (s *Server) makeRoom(w http.ResponseWriter, r *http.Request, length int) {
	newest := keptBy(r)
	slices.SortFunc(newest, func(a, b keptOne) int { return cmp.Compare(b.began, a.began) })
	n := 0
	for n < len(newest) && length+newest[n].length <= maxKeptTogether {
		length += newest[n].length
		n++
	}
	for i := len(newest) - 1; i >= max(n, len(newest)-maxLetGo); i-- {
		s.letGo(w, r, newest[i].name)
	}
}

// keptBy lists what a browser keeps, also for other issuers on our host: its requests
// carry all of them.
func keptBy(r *http.Request) []keptOne {
	var all []keptOne
	for _, c := range r.Cookies() {
		if !strings.HasPrefix(strings.TrimPrefix(c.Name, "__Host-"), keptCookie) {
			continue
		}
		began, _, _ := strings.Cut(c.Value, ".")
		at, _ := strconv.ParseInt(began, 36, 64)
		all = append(all, keptOne{name: c.Name, began: at, length: len(c.Name) + len(c.Value)})
	}
	return all
}

// What is stored of transactions that no cookie holds, in bytes, for the life of a
// transaction: of one address, with more for the networks that it is in, and of everybody.
// Only requests with a state of some kilobytes get there.
const (
	largeEach = 64 << 10
	largeAll  = 8 << 20
)

// keepHere stores a transaction that is too large for a cookie, within bounds.
func (s *Server) keepHere(r *http.Request, t storage.Transaction) error {
	body, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("authz: transaction: %w", err)
	}
	weight := int64(len(body))
	shares := append(fair.ByNetwork(fair.Requester(r.Context()), "large transactions", fair.Limit{Burst: largeEach, Per: transactionTTL}),
		fair.Bucket{Key: "large transactions", Limit: fair.Limit{Burst: largeAll, Per: transactionTTL}})
	if wait := s.largeTransactions.Take(weight, shares...); wait > 0 {
		return tooLarge()
	}
	if err := s.cfg.Store.CreateTransaction(r.Context(), t); err != nil {
		s.largeTransactions.Return(weight, shares...)
		return err
	}
	return nil
}

func tooLarge() *displayedError {
	return &displayedError{
		status: http.StatusTooManyRequests, code: codeUnavailable,
		title:   "Too many large requests",
		message: "The application's request is too large for your browser to keep, and this server keeps few of that size at a time.",
		steps:   []string{"Wait a minute and connect again.", "If it stays like this, tell the people who make the application that its state parameter is very long."},
	}
}
