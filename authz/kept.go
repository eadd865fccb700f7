package authz

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
	"gatehouse.example/templates/language"
)

// keptCookie is the prefix of the cookies that hold transactions. Users who are not signed in
// must not fill the store, so a transaction stays in its browser, sealed, in a cookie of its
// own. The name of the cookie ends in the transaction's id, so that two pages that open at
// once do not overwrite each other. See [storage.Store.SealTransaction].
const keptCookie = "authz_transaction_"

const (
	// maxKept is the greatest length of the value of such a cookie. Browsers accept 4096
	// characters with the name and attributes (RFC 6265 section 6.1), but a proxy with
	// default settings (nginx: proxy_buffer_size 4k) requires all headers of a response to
	// fit into 4 KiB.
	maxKept = 2400
	// maxKeptTogether is the greatest length of the names and values of all of them: the
	// headers of a request must stay below 8 KiB for other servers on the same host. The
	// oldest cookies are dropped.
	maxKeptTogether = 5 << 10
	// maxDropped is the greatest number of cookies that one response drops, because each
	// takes a header.
	maxDropped = 4
)

// keepTransaction stores a transaction in a cookie of the browser, or in the store if it is
// too large.
func (s *Server) keepTransaction(w http.ResponseWriter, r *http.Request, t storage.Transaction) error {
	sealed, err := s.cfg.Store.SealTransaction(t)
	if err != nil {
		return err
	}
	value := strconv.FormatInt(t.Created.Unix(), 36) + "." + base64.RawURLEncoding.EncodeToString(sealed)
	if len(value) > maxKept {
		return s.storeTransaction(r, t)
	}
	name := s.cookies.name(keptCookie + t.ID)
	s.makeRoom(w, r, len(name)+len(value))
	s.cookies.set(w, keptCookie+t.ID, value, transactionTTL)
	return nil
}

// rekeep puts a transaction back, after a step was added to it, to where it was read from. Of
// steps that are added in two windows to a transaction in the browser, the browser keeps the
// last one.
func (s *Server) rekeep(w http.ResponseWriter, r *http.Request, t storage.Transaction) error {
	if !t.Stored() {
		return s.keepTransaction(w, r, t)
	}
	err := s.cfg.Store.UpdateTransaction(r.Context(), t)
	if errors.Is(err, storage.ErrNotFound) {
		return gone()
	}
	return err
}

// keptTransaction returns the sealed transaction in the cookie of the browser, or nil if
// there is none. Two cookies of one name count as none.
func (s *Server) keptTransaction(r *http.Request, id string) []byte {
	value := onlyCookie(r, s.cookies.name(keptCookie+id))
	if len(value) > maxKept {
		return nil
	}
	_, sealed, _ := strings.Cut(value, ".")
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return nil
	}
	return raw
}

// dropCookie removes a cookie from the browser if the request has it.
func (s *Server) dropCookie(w http.ResponseWriter, r *http.Request, name string) {
	if _, n := cookieNamed(r, name); n > 0 {
		setCookie(w, name, "", 0, s.cookies.secure)
	}
}

// keptEntry describes the cookie of a transaction without opening it. Only the browser itself
// could have changed the values.
type keptEntry struct {
	name    string
	started int64
	length  int
}

// makeRoom drops the oldest transactions of the browser until one with that length fits
// beside the others.
func (s *Server) makeRoom(w http.ResponseWriter, r *http.Request, length int) {
	newest := keptEntries(r)
	slices.SortFunc(newest, func(a, b keptEntry) int { return cmp.Compare(b.started, a.started) })
	n := 0
	for n < len(newest) && length+newest[n].length <= maxKeptTogether {
		length += newest[n].length
		n++
	}
	for i := len(newest) - 1; i >= max(n, len(newest)-maxDropped); i-- {
		s.dropCookie(w, r, newest[i].name)
	}
}

// keptEntries returns the transaction cookies of a request, including those of other issuers
// on the same host.
func keptEntries(r *http.Request) []keptEntry {
	var all []keptEntry
	for _, c := range r.Cookies() {
		if !strings.HasPrefix(strings.TrimPrefix(c.Name, "__Host-"), keptCookie) {
			continue
		}
		began, _, _ := strings.Cut(c.Value, ".")
		at, _ := strconv.ParseInt(began, 36, 64)
		all = append(all, keptEntry{name: c.Name, started: at, length: len(c.Name) + len(c.Value)})
	}
	return all
}

// The limits on stored transactions, in bytes per transactionTTL: for one address, with
// higher limits for the networks around it, and for all addresses together. Only requests
// with a state of more than about a kilobyte are stored.
const (
	largeEach = 64 << 10
	largeAll  = 8 << 20
)

// storeTransaction stores a transaction that is too large for a cookie, within limits.
func (s *Server) storeTransaction(r *http.Request, t storage.Transaction) error {
	body, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("authz: transaction: %w", err)
	}
	weight := int64(len(body))
	buckets := append(fair.ByNetwork(fair.Requester(r.Context()), "large transactions", fair.Limit{Burst: largeEach, Per: transactionTTL}),
		fair.Bucket{Key: "large transactions", Limit: fair.Limit{Burst: largeAll, Per: transactionTTL}})
	if wait := s.largeTransactions.Take(weight, buckets...); wait > 0 {
		return tooLarge()
	}
	if err := s.cfg.Store.CreateTransaction(r.Context(), t); err != nil {
		s.largeTransactions.Return(weight, buckets...)
		return err
	}
	return nil
}

func tooLarge() *displayedError {
	return &displayedError{
		status: http.StatusTooManyRequests, code: codeUnavailable, limit: LimitLarge,
		title:   language.Say("error.tooLarge.title"),
		message: language.Say("error.tooLarge.message"),
		steps:   []language.Text{language.Say("step.connectMinute"), language.Say("error.tooLarge.tell")},
	}
}
