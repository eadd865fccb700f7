//go:build e2e

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

const (
	// loadWorkers is the number of workers.
	loadWorkers = 16
	// answerBound is how long any answer may take: two seconds are promised, the rest is for a
	// machine that is busy with the load itself. A sign-in may also queue for five seconds until
	// its password is checked.
	answerBound = 5 * time.Second
	signInBound = answerBound + 5*time.Second
)

// member is a process of the server under load, with its flags.
type member struct {
	*process
	admin string // the address of its admin listener
	flags []string

	mu   sync.Mutex
	away []span
}

// span is a time in which a process was away; to is zero while it lasts.
type span struct{ from, to time.Time }

func (m *member) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = append(m.away, span{from: time.Now()})
}

func (m *member) arrive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away[len(m.away)-1].to = time.Now()
}

// missed reports whether the process was away while the request waited.
func (m *member) missed(a answer) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.away {
		if a.Began.Add(a.Took).After(s.from) && (s.to.IsZero() || a.Began.Before(s.to)) {
			return true
		}
	}
	return false
}

// load is the requests of clients and people to a server of two processes. A worker writes the
// promise of an answer into the journal before it goes on.
type load struct {
	t       *testing.T
	fleet   *fleet
	at      [2]*member
	journal *journal
	ctx     context.Context
	stop    context.CancelFunc // ends the load when all workers have finished the current round
	workers sync.WaitGroup
	rounds  chan struct{} // rounds that are left

	mu      sync.Mutex
	answers map[outcome]int
	slowest answer
	wrongs  int
}

// newLoad prepares a load on the store. The code, the window of a refresh token and the access
// token outlive the test, so that only requests end a family.
func newLoad(t *testing.T, store string) *load {
	t.Helper()
	l := &load{t: t, answers: map[outcome]int{}, rounds: make(chan struct{}, 1000), fleet: newFleet(t, fleetConfig{Store: store}), journal: newJournal(t)}
	for i := range l.at {
		admin := redistest.FreeAddress(t)
		flags := []string{"--admin-listen", admin, "--code-ttl", "10m", "--refresh-window", "10m", "--access-token-ttl", "1h"}
		l.at[i] = &member{process: l.fleet.start(flags...), admin: admin, flags: flags}
	}
	l.ctx, l.stop = context.WithCancel(t.Context())
	t.Cleanup(l.end)
	return l
}

// begin starts all workers. Their choices follow from the seed.
func (l *load) begin(seed uint64) {
	for n := range loadWorkers {
		w := &worker{load: l, n: n, random: rand.New(rand.NewPCG(seed, uint64(n)))}
		l.workers.Go(func() {
			w.arrives()
			for {
				select {
				case <-l.ctx.Done():
					return
				case <-l.rounds:
					w.round()
				}
			}
		})
	}
}

// more adds rounds. So the number of families to check afterwards does not grow with the speed of
// the machine.
func (l *load) more(rounds int) {
	for range rounds {
		select {
		case l.rounds <- struct{}{}:
		default: // that is enough
		}
	}
}

func (l *load) end() {
	l.stop()
	l.workers.Wait()
}

// wrong reports a wrong answer, and ends the load. Only the first ones are logged, and a request
// that this interrupts is not an error.
func (l *load) wrong(what string, a answer) {
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wrongs++; l.wrongs == 1 || l.wrongs <= 10 && a.certain() {
		l.t.Errorf("%s: %s", what, a)
	}
}

// heard checks an answer by itself. A process that is there answers in time, and its 503 has the
// right form.
func (l *load) heard(a answer) answer {
	o := a.outcome()
	l.mu.Lock()
	l.answers[o]++
	if a.Took > l.slowest.Took {
		l.slowest = a
	}
	l.mu.Unlock()
	switch {
	case o == broken:
		l.wrong("an answer that is always wrong", a)
	case a.Took > answerBound && a.Op != opSignIn || a.Took > signInBound:
		l.wrong("too late", a)
	case o == unavailable && !a.saysWhen():
		l.wrong("503 without Retry-After, or not in the form of its caller", a)
	case (o == unknown || o == unsent) && !l.missed(a):
		l.wrong("no answer from a process that is there", a)
	}
	return a
}

func (l *load) missed(a answer) bool {
	for _, m := range l.at {
		if m.address == a.At && m.missed(a) {
			return true
		}
	}
	return false
}

// The operations of a browser.
const (
	opPage   = "page"
	opSignIn = "sign-in"
)

func pageOp(r *http.Request) string {
	if r.Method == http.MethodPost && r.URL.Path == "/login" {
		return opSignIn
	}
	return opPage
}

// saysWhen checks a 503: Retry-After, and JSON for a program or a page for a person.
func (a answer) saysWhen() bool {
	seconds, err := strconv.Atoi(a.RetryAfter)
	if a.Op == opPage || a.Op == opSignIn {
		return err == nil && seconds > 0 && strings.Contains(a.body, "</html>")
	}
	return err == nil && seconds > 0 && a.Error == "temporarily_unavailable"
}

// note adds the promise of an answer to the journal.
func (l *load) note(a answer, p promise) answer {
	p.Outcome = a.outcome().String()
	if err := l.journal.append(p); err != nil {
		l.t.Errorf("journal: %v", err)
		l.stop()
	}
	return a
}

// insist repeats a call at both processes in turn until its outcome is certain.
func (l *load) insist(first int, call func(at *process) answer) answer {
	for deadline := time.Now().Add(patience); ; first++ {
		a := call(l.at[first%len(l.at)].process)
		if a.certain() || l.t.Failed() {
			return a
		}
		if time.Now().After(deadline) {
			l.wrong(fmt.Sprintf("still, after %s", patience), a)
			return a
		}
		<-time.After(20 * time.Millisecond) // Retry-After is longer
	}
}

// certain reports whether the outcome of the call is certain, and that it was served.
func (a answer) certain() bool { return !a.uncertain() && a.outcome() != unsent }

// visitor is a person with a browser.
type visitor struct {
	name, password string
	jar            http.CookieJar
}

func (l *load) newVisitor(name string) *visitor {
	jar, err := cookiejar.New(nil)
	if err != nil {
		l.t.Error(err)
	}
	return &visitor{name: name, password: personPassword, jar: jar}
}

// as fills in a sign-in form in the name of the visitor.
func (v *visitor) as(r *http.Request) *http.Request {
	if pageOp(r) != opSignIn {
		return r
	}
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	form.Set("username", v.name)
	form.Set("password", v.password)
	mine := newForm(r.URL.String(), form)
	mine.Header = r.Header
	return mine
}

// party returns the client with an id, without a browser.
func (l *load) party(id string) *party {
	return &party{t: l.t, issuer: l.fleet.issuer, id: id}
}

// visit goes from page to page, allowing everything, until there is a code, a page is not served,
// or done returns true. It returns the last answer and the request that would be next.
func (l *load) visit(at *process, v *visitor, client string, done func(*http.Request) bool) (a answer, r *http.Request) {
	p := l.party(client)
	browser := *at.client
	browser.Jar = v.jar
	r = newRequest(http.MethodGet, p.authorizeURL(), "")
	for range 8 {
		var resp *http.Response
		a, resp = at.send(pageOp(r), &browser, r)
		if l.heard(a); a.outcome() != granted {
			return a, nil
		}
		var err error
		if r, a.Code, err = p.next(resp, a.body); err != nil {
			l.wrong("consent: "+err.Error(), a)
			return a, nil
		}
		if a.Code != "" || done(r) {
			return a, r
		}
		r = v.as(r)
	}
	l.wrong("consent: the pages do not end", a)
	return a, nil
}

// consent returns an answer with a code, or the reason why there is none.
func (l *load) consent(at *process, v *visitor, client string) answer {
	all := func(*http.Request) bool { return false }
	a, _ := l.visit(at, v, client, all)
	if l.journal.forgets && expired(a) {
		a, _ = l.visit(at, v, client, all) // pages in progress do not wait for a replica
	}
	if a.Code == "" {
		return a
	}
	return l.note(a, promise{Op: opConsent, Client: client, Person: v.name, Code: a.Code})
}

// register registers a client.
func (l *load) register(at *process) answer {
	a := l.heard(l.fleet.register(at))
	if a.outcome() != granted {
		return a
	}
	token := registrationToken(a)
	if token == "" {
		l.wrong("a registration that is not complete", a)
	}
	return l.note(a, promise{Op: opRegister, Client: a.Client, Token: token})
}

func registrationToken(registered answer) string {
	var given struct {
		Token string `json:"registration_access_token"`
	}
	_ = json.Unmarshal([]byte(registered.body), &given) // it parsed before
	return given.Token
}

// registered reads the registration (RFC 7592 section 2.1).
func (l *load) registered(at *process, client, token string) answer {
	r := newRequest(http.MethodGet, l.fleet.issuer+"/register/"+client, "")
	r.Header.Set("Authorization", "Bearer "+token)
	return l.heard(at.call("registration", r))
}

// held is a code and the last tokens that its client received for it.
type held struct {
	client, code string
	tokens       answer
}

func (l *load) redeem(at *process, op string, h *held) answer {
	a := l.heard(l.party(h.client).redeem(at, h.code))
	return l.note(a, promise{Op: op, Code: h.code, Access: a.Access, Refresh: a.Refresh})
}

func (l *load) refresh(at *process, h *held, token string) answer {
	a := l.heard(l.party(h.client).refresh(at, token))
	return l.note(a, promise{Op: opRefresh, Code: h.code, Token: token, Access: a.Access, Refresh: a.Refresh})
}

func (l *load) revoke(at *process, h *held, token string) answer {
	return l.note(l.heard(l.party(h.client).revoke(at, token)), promise{Op: opRevoke, Code: h.code})
}

func (l *load) introspect(at *process, access string) answer {
	return l.heard(l.party("").introspect(at, access))
}

// command runs a verb of authz on the store. A verb that fails may have done its work.
func (l *load) command(stdin string, args ...string) (stdout string, a answer) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, authzBinary, args...)
	cmd.Env = l.fleet.environment()
	cmd.Stdin = strings.NewReader(stdin)
	endWithParent(cmd)
	a = answer{Op: strings.Join(args, " "), Status: http.StatusOK, Began: time.Now()}
	out, err := cmd.Output()
	if a.Took = time.Since(a.Began); err != nil {
		a.Err = err
		if ended, ok := err.(*exec.ExitError); ok {
			a.Err = fmt.Errorf("%w: %s", err, ended.Stderr)
		}
	}
	return string(out), a
}

func (l *load) add(name string) answer {
	_, a := l.command(personPassword, "user", "add", name)
	if a.outcome() != granted {
		return a // another person is added then
	}
	return l.note(a, promise{Op: opAdd, Person: name})
}

func (l *load) disable(name string) answer {
	_, a := l.command("", "user", "disable", name)
	return l.note(a, promise{Op: opDisable, Person: name})
}
