package authz_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"gatehouse.example/metadata"
)

// message is a request that a section builds.
type message struct {
	method, path string
	header       http.Header
	values       url.Values
	body         *string
	client       testClient
	browser      bool
}

var (
	headerLine = regexp.MustCompile(`^([A-Z][A-Za-z0-9-]*): ?(.*)$`)
	valueLine  = regexp.MustCompile(`^([a-z_]+)=(.*)$`)
)

// clientOf returns the client that a section names. The client line comes first: it
// determines the values that the other lines replace.
func (f *flow) clientOf(data []byte) testClient {
	f.t.Helper()
	for _, line := range lines(data) {
		if name, ok := strings.CutPrefix(line, "client "); ok {
			m, known := f.cast[name]
			if !known {
				f.fatalf("there is no client %q", name)
			}
			return m
		}
	}
	return f.cast["native"]
}

// fill applies the lines of a section to a message.
func (f *flow) fill(m *message, data []byte) {
	f.t.Helper()
	touched := map[string]bool{}
	text, raw, hasBody := strings.Cut("\n"+string(data), "\n!\n")
	if hasBody {
		raw = f.expand(strings.TrimSuffix(raw, "\n"))
		m.body = &raw
	}
	for _, line := range lines([]byte(text)) {
		switch header, value := headerLine.FindStringSubmatch(line), valueLine.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "client "):
		case value != nil:
			if !touched[value[1]] {
				m.values.Del(value[1])
			}
			touched[value[1]] = true
			m.values.Add(value[1], f.expand(value[2]))
		case header != nil:
			f.fillHeader(m, header[1], f.expand(header[2]))
		case strings.HasPrefix(line, "-") && strings.HasSuffix(line, ":"):
			m.header.Del(strings.Trim(line, "-:"))
		case strings.HasPrefix(line, "-"):
			m.values.Del(line[1:])
		default:
			f.fatalf("this line is not understood: %s", line)
		}
	}
}

func (f *flow) fillHeader(m *message, name, value string) {
	switch name {
	case "Basic":
		m.header.Add("Authorization", basicHeader(value))
	case "Encoded":
		id, secret, _ := strings.Cut(value, " ")
		m.header.Add("Authorization", basicHeader(url.QueryEscape(id)+" "+url.QueryEscape(secret)))
	default:
		m.header.Add(name, value)
	}
}

func basicHeader(idAndSecret string) string {
	id, secret, _ := strings.Cut(idAndSecret, " ")
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(id+":"+secret))
}

// send sends a message and measures what it does to the store.
func (f *flow) send(m *message) {
	f.t.Helper()
	f.checkExpected()
	r := f.h.newRequest(m.method, f.address(m.path), m.values)
	if m.body != nil {
		r = f.h.newRequest(m.method, f.address(m.path), nil)
		r.Body = http.NoBody
		if *m.body != "" {
			r, _ = http.NewRequest(m.method, r.URL.String(), strings.NewReader(*m.body))
		}
	}
	for name, values := range m.header {
		r.Header[name] = values
	}
	before := f.h.meter.writes.Load()
	if m.browser {
		f.answer = f.browser.do(r)
	} else {
		f.answer = f.h.send(r)
	}
	f.writes = f.h.meter.writes.Load() - before
	f.expected = false
}

func (f *flow) address(path string) string {
	if strings.HasPrefix(path, "/.well-known") || path == "/healthz" {
		return path
	}
	if strings.HasPrefix(path, "/") {
		return f.h.issuer + path
	}
	return path
}

// identify adds the client authentication of a client.
func (m *message) identify(c testClient) {
	m.client = c
	identified(c, m.values)
	if c.Metadata.TokenEndpointAuthMethod == metadata.AuthMethodBasic {
		m.header.Set("Authorization", basicHeader(c.ID+" "+c.secret))
	}
}

// known sends a request with the correct values of an endpoint, changed by data.
func (f *flow) known(path string, values url.Values, c *testClient, data []byte) {
	f.t.Helper()
	m := &message{method: http.MethodPost, path: path, header: http.Header{}, values: values}
	if c != nil {
		m.identify(*c)
	}
	f.fill(m, data)
	f.send(m)
}

// free sends a request whose first line gives method and path.
func (f *flow) free(data []byte, inBrowser bool) {
	f.t.Helper()
	first, rest, _ := strings.Cut(string(data), "\n")
	method, path, ok := strings.Cut(f.expand(first), " ")
	if !ok {
		f.fatalf("the first line must be METHOD PATH, not %q", first)
	}
	m := &message{method: method, path: path, header: http.Header{}, values: url.Values{}, browser: inBrowser}
	f.fill(m, []byte(rest))
	f.send(m)
}

func (f *flow) asking(data []byte) (m *message) {
	f.t.Helper()
	c := f.clientOf(data)
	m = &message{method: http.MethodGet, path: "/authorize", header: http.Header{}, values: asks(c), browser: true}
	f.fill(m, data)
	f.redirect, f.state = c.redirect, m.values.Get("state")
	if sent := m.values.Get("redirect_uri"); sent != "" {
		f.redirect = sent
	}
	return m
}

func (f *flow) submitted(data []byte) {
	f.t.Helper()
	action, values := f.browser.page.inputs(f.t)
	target, err := f.browser.page.url.Parse(action)
	if err != nil {
		f.fatalf("action %q: %v", action, err)
	}
	m := &message{method: http.MethodPost, path: target.String(), values: values, browser: true,
		header: http.Header{"Origin": {origin(f.h.issuer)}, "Sec-Fetch-Site": {"same-origin"}}}
	f.fill(m, data)
	f.send(m)
}

// authorize runs the front channel and keeps the code, if there is one.
func (f *flow) authorize(data []byte) {
	f.t.Helper()
	f.checkExpected()
	m := f.asking(data)
	decision, untick := m.values.Get("decision"), m.values["untick"]
	m.values.Del("decision")
	m.values.Del("untick")
	if decision == "" {
		decision = "allow"
	}
	before := f.h.meter.writes.Load()
	f.answer = f.browser.walk(m.values, decision, untick...)
	f.writes = f.h.meter.writes.Load() - before
	delete(f.vars, "code")
	if location, err := url.Parse(f.answer.header.Get("Location")); err == nil && location.Query().Get("code") != "" {
		f.vars["code"] = location.Query().Get("code")
	}
}

func (f *flow) tokens(data []byte) {
	f.t.Helper()
	f.authorize(data)
	if f.vars["code"] == "" {
		f.fatalf("no code: %d %s %s", f.answer.status, f.answer.header.Get("Location"), f.answer.body)
	}
	c := f.clientOf(data)
	values := redemption(c, f.vars["code"])
	values.Set("redirect_uri", f.redirect)
	if asked := f.asking(data).values["resource"]; len(asked) > 1 {
		values["resource"] = asked
	}
	f.answer = f.h.toToken(c, values)
	if f.answer.status != http.StatusOK {
		f.fatalf("no tokens: %d %s", f.answer.status, f.answer.body)
	}
	f.vars["access_token"] = f.answer.member(f.t, "access_token")
	f.vars["refresh_token"] = f.answer.member(f.t, "refresh_token")
}
