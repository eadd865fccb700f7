package e2e

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var floods = flag.Bool("floods", false, "measure what /token and a person feel of floods")

const floodTime = 10 * time.Second

// flood is a number of hostile requests: all at once, or a rate for ten seconds, from addresses in
// different networks.
type flood struct {
	name              string
	atOnce, perSecond int
	addresses         int
	request           func(f flooder, i int) *http.Request
}

var allFloods = []flood{
	{name: "nothing", addresses: 1},
	{name: "the keys, 500 a second", perSecond: 500, addresses: 100, request: flooder.keys},
	{name: "/authorize, 500 a second, 1 address", perSecond: 500, addresses: 1, request: flooder.authorize},
	{name: "/authorize, 500 a second, 100 addresses", perSecond: 500, addresses: 100, request: flooder.authorize},
	{name: "registrations, 500 a second", perSecond: 500, addresses: 100, request: flooder.register},
	{name: "clients with documents, 500 a second", perSecond: 500, addresses: 100, request: flooder.document},
	{name: "refresh tokens of nobody, 500 a second", perSecond: 500, addresses: 100, request: flooder.guess},
	{name: "wrong secrets at /introspect, 500 a second", perSecond: 500, addresses: 100, request: flooder.introspect},
	{name: "pages of the catalogue, 300 a second", perSecond: 300, addresses: 100, request: flooder.catalogue},
	{name: "700 health checks at once, 1 address", atOnce: 700, addresses: 1, request: flooder.health},
	{name: "200 right passwords at once, 1 address", atOnce: 200, addresses: 1, request: flooder.signIn},
	{name: "700 names of nobody at once, 1 address", atOnce: 700, addresses: 1, request: flooder.signInAsNobody},
	{name: "700 names of nobody at once, 100 addresses", atOnce: 700, addresses: 100, request: flooder.signInAsNobody},
}

// TestFloods measures: every flood comes from a process of its own, and meanwhile a client
// refreshes its token every 4 ms, and a person with a new browser signs in. It expects that
// these succeed, and asserts no time, because that is the machine's:
//
//	go test -tags e2e ./internal/e2e -run TestFloods -floods -v
func TestFloods(t *testing.T) {
	if !*floods {
		t.Skip("it takes -floods")
	}
	server := startAuthz(t, nil, "--dev-resource", devResource, "--registry-at", "/catalogue")
	held := newFlow(t, server, devResource)
	refresh := held.tokens(t)["refresh_token"].(string)
	var calm time.Duration
	for i := -1; i < len(allFloods); i++ { // without a flood twice: the first time warms up
		over := startFlood(t, max(i, 0), held)
		entered := make(chan time.Duration, 1)
		go func() {
			begin := time.Now()
			defer func() { entered <- time.Since(begin) }()
			person := newBrowser(t)
			person.Transport = from("127.9.9.9")
			allow(t, person, held.ask())
		}()
		var took []time.Duration
		answers := ""
		for begin := time.Now(); answers == "" || time.Since(begin) < floodTime; time.Sleep(4 * time.Millisecond) {
			select {
			case answers = <-over:
			default:
			}
			began := time.Now()
			status, answer := held.refresh(t, refresh)
			took = append(took, time.Since(began))
			if status != http.StatusOK {
				t.Fatalf("beside %s: refreshing: %d %v", allFloods[i].name, status, answer)
			}
			refresh = answer["refresh_token"].(string)
		}
		slices.Sort(took)
		at := func(permille int) time.Duration { return took[len(took)*permille/1000].Round(10 * time.Microsecond) }
		if i <= 0 {
			calm = at(990)
		}
		t.Logf("%-44s /token %4d times: p50 %v, p90 %v, p99 %v (%.1f of calm), most %v; a person is in after %v; answers %s", allFloods[max(i, 0)].name,
			len(took), at(500), at(900), at(990), float64(at(990))/float64(calm), took[len(took)-1].Round(10*time.Microsecond), (<-entered).Round(time.Millisecond), answers)
	}
}

// The environment of a process that floods.
const (
	floodNumber = "GATEHOUSE_FLOOD"
	floodServer = "GATEHOUSE_FLOOD_SERVER"
	floodClient = "GATEHOUSE_FLOOD_CLIENT"
)

// startFlood starts the process, and returns when its flood begins; over is sent what the
// flood was answered when it is over.
func startFlood(t *testing.T, number int, held *flow) (over <-chan string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestFlooder$")
	cmd.Env = append(os.Environ(), floodNumber+"="+fmt.Sprint(number), floodServer+"="+held.authz.URL, floodClient+"="+held.client)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); line != "begin\n" {
		t.Fatalf("the flood said %q (%v)", line, err)
	}
	answers := make(chan string, 1)
	go func() {
		line, _ := said.ReadString('\n')
		_ = cmd.Process.Kill() // it has said everything
		_ = cmd.Wait()
		answers <- cmp.Or(strings.TrimSpace(line), "?")
	}()
	return answers
}

// TestFlooder is a process that floods.
func TestFlooder(t *testing.T) {
	var number int
	if _, err := fmt.Sscan(os.Getenv(floodNumber), &number); err != nil {
		t.Skip("TestFloods runs it")
	}
	kind := allFloods[number]
	f := flooder{t: t, held: &flow{authz: &process{URL: os.Getenv(floodServer)}, client: os.Getenv(floodClient), resource: devResource}}
	n := kind.atOnce + kind.perSecond*int(floodTime/time.Second)
	requests := make([]*http.Request, n)
	for i := range requests {
		requests[i] = kind.request(f, i)
	}
	clients := make([]http.RoundTripper, kind.addresses)
	for i := range clients {
		clients[i] = from(fmt.Sprintf("127.%d.%d.7", 1+number, i))
	}
	var counts [6]atomic.Int64
	var all sync.WaitGroup
	fmt.Println("begin")
	begin := time.Now()
	for i, r := range requests {
		if kind.perSecond > 0 {
			time.Sleep(time.Until(begin.Add(time.Duration(i) * time.Second / time.Duration(kind.perSecond))))
		}
		all.Go(func() {
			resp, err := clients[i%kind.addresses].RoundTrip(r)
			if err != nil {
				counts[0].Add(1)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			counts[resp.StatusCode/100].Add(1)
		})
	}
	all.Wait()
	fmt.Printf("2xx %d, 3xx %d, 4xx %d, 5xx %d, none %d\n", counts[2].Load(), counts[3].Load(), counts[4].Load(), counts[5].Load(), counts[0].Load())
}

// from makes requests from a loopback address.
func from(address string) http.RoundTripper {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64}
}

// flooder sends the requests of floods.
type flooder struct {
	t    testing.TB
	held *flow
}

// ask is the authorization request of a client.
func (f *flow) ask() string {
	return f.authz.URL + "/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {f.client}, "redirect_uri": {flowRedirect}, "resource": {f.resource}, "state": {"s"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
	}.Encode()
}

func (f flooder) post(path, kind, body string) *http.Request {
	r, err := http.NewRequest(http.MethodPost, f.held.authz.URL+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	return r
}

func (f flooder) form(path string, values url.Values) *http.Request {
	return f.post(path, "application/x-www-form-urlencoded", values.Encode())
}

func (f flooder) health(int) *http.Request    { return newGet(f.t, f.held.authz.URL+"/healthz") }
func (f flooder) keys(int) *http.Request      { return newGet(f.t, f.held.authz.URL+"/jwks.json") }
func (f flooder) authorize(int) *http.Request { return newGet(f.t, f.held.ask()) }
func (f flooder) catalogue(int) *http.Request {
	return newGet(f.t, f.held.authz.URL+"/catalogue/v0.1/servers")
}

func (f flooder) register(i int) *http.Request {
	return f.post("/register", "application/json", fmt.Sprintf(`{"client_name":"flood %d","redirect_uris":[%q],"token_endpoint_auth_method":"none"}`, i, flowRedirect))
}

func (f flooder) document(i int) *http.Request {
	other := *f.held
	other.client = fmt.Sprintf("https://client%d.example.com/document", i)
	return newGet(f.t, other.ask())
}

func (f flooder) guess(int) *http.Request {
	return f.form("/token", url.Values{"grant_type": {"refresh_token"}, "client_id": {f.held.client}, "refresh_token": {strings.Repeat("A", 64)}})
}

func (f flooder) introspect(int) *http.Request {
	r := f.form("/introspect", url.Values{"token": {"x"}})
	r.SetBasicAuth(url.QueryEscape(devResource), "a wrong secret that is long enough")
	return r
}

func (f flooder) signIn(i int) *http.Request { return f.signInWith(i, personName, personPassword) }
func (f flooder) signInAsNobody(i int) *http.Request {
	return f.signInWith(i, fmt.Sprint("nobody", i), "x")
}

// signInWith opens the form of a browser of its own first.
func (f flooder) signInWith(_ int, name, password string) *http.Request {
	browser := newBrowser(f.t)
	page, _ := load(f.t, browser, newGet(f.t, f.held.ask()))
	action, err := page.url.Parse(page.action)
	if err != nil {
		f.t.Fatal(err)
	}
	r := f.form(action.RequestURI(), page.signIn(name, password))
	r.Header.Set("Origin", f.held.authz.URL)
	for _, c := range browser.Jar.Cookies(action) {
		r.AddCookie(c)
	}
	return r
}
