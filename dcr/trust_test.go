package dcr_test

import (
	"strings"
	"testing"

	"gatehouse.example/dcr"
	"gatehouse.example/internal/webtest"
	"gatehouse.example/safefetch"
	"gatehouse.example/storage"
)

func TestTrust(t *testing.T) {
	r := newReader(t, func(c *dcr.Config) {
		c.Documents.Allow = []string{"good.example.com", "*.corp.example.com"}
		c.Documents.Deny = []string{"bad.example.com", "*.evil.example.com", "worst.corp.example.com"}
	})
	for host, want := range map[string]string{
		"good.example.com": "allow", "a.corp.example.com": "allow", "a.b.corp.example.com": "allow",
		"corp.example.com": "ask", "xcorp.example.com": "ask", "x.good.example.com": "ask", "evil.example.com": "ask",
		"bad.example.com": "deny", "x.evil.example.com": "deny", "worst.corp.example.com": "deny",
	} {
		id := r.publish(host, nil)
		if want == "deny" {
			r.refuses(t, id, "not accepted")
			if r.web.Hits(id) != 0 {
				t.Errorf("%s was fetched", id)
			}
			continue
		}
		if c := r.resolve(t, id); r.Vouched(c) != (want == "allow") {
			t.Errorf("%s: vouched %v", host, r.Vouched(c))
		}
	}
	closed := newReader(t, func(c *dcr.Config) {
		c.Documents = dcr.Documents{Trust: dcr.TrustDeny, Allow: []string{"good.example.com"}}
	})
	closed.resolve(t, closed.publish("good.example.com", nil))
	closed.refuses(t, closed.publish("other.example.com", nil), "not accepted")
	open := newReader(t, func(c *dcr.Config) { c.Documents = dcr.Documents{Trust: dcr.TrustAllow} })
	if c := open.resolve(t, open.publish("other.example.com", nil)); !open.Vouched(c) {
		t.Error("not vouched for")
	}
	for source, want := range map[storage.ClientSource]bool{storage.ClientConfigured: true, storage.ClientRegistered: false} {
		c := storage.Client{ID: "https://good.example.com/", Source: source}
		if r.Vouched(c) != want || dcr.DocumentHost(c) != "" {
			t.Errorf("%s: vouched %v, host %q", source, r.Vouched(c), dcr.DocumentHost(c))
		}
	}
}

func TestNewRefusesDocumentsThatCannotWork(t *testing.T) {
	f, fetcher := newFixture(t, nil), webtest.New(t).Fetcher(nil)
	for _, tt := range []struct {
		documents dcr.Documents
		fetcher   *safefetch.Fetcher
		want      string
	}{
		{dcr.Documents{Trust: dcr.TrustAsk}, nil, "no fetcher"},
		{dcr.Documents{Trust: "maybe"}, fetcher, "not allow, ask or deny"},
		{dcr.Documents{Allow: []string{"example.com"}}, fetcher, "no trust"},
		{dcr.Documents{InsecureAllowLoopback: true}, fetcher, "no trust"},
		{dcr.Documents{Trust: dcr.TrustAsk, Allow: []string{"Example.com"}}, fetcher, "lowercase"},
		{dcr.Documents{Trust: dcr.TrustAsk, Deny: []string{"*"}}, fetcher, "deny"},
		{dcr.Documents{Trust: dcr.TrustAsk, Deny: []string{"a.*.example.com"}}, fetcher, "deny"},
		{dcr.Documents{Trust: dcr.TrustAsk, Deny: []string{"https://example.com"}}, fetcher, "deny"},
		{dcr.Documents{Trust: dcr.TrustAsk, Deny: []string{"example.com:8443"}}, fetcher, "deny"},
		{dcr.Documents{Trust: dcr.TrustAsk, Deny: []string{""}}, fetcher, "deny"},
	} {
		_, err := dcr.New(dcr.Config{Store: f.store, Endpoint: registerURL, Documents: tt.documents, Fetcher: tt.fetcher})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want %q", tt.documents, err, tt.want)
		}
	}
	if _, err := dcr.New(dcr.Config{Store: f.store, Endpoint: registerURL, Fetcher: fetcher, Documents: dcr.Documents{
		Trust: dcr.TrustAsk, Allow: []string{"127.0.0.1", "localhost", "*.example.com"},
	}}); err != nil {
		t.Error(err)
	}
}
