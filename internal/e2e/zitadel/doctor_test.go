package zitadel

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/storage"

	"gatehouse.example/doctor"
)

// TestDoctorAtZitadel: what the doctor finds with a sign-in at a server behind our guard whose tokens
// are from zitadel's provider, with a client that the provider knows, and at the provider alone.
func TestDoctorAtZitadel(t *testing.T) {
	p := serve(t, redirect)
	storage.RegisterClients(storage.NativeClient("doctor", "http://127.0.0.1/callback"))
	open := func(_ context.Context, at string) error {
		u, err := url.Parse(at)
		if err != nil {
			return err
		}
		p.redirect = u.Query().Get("redirect_uri")
		answer, err := http.Get(p.visit(newBrowser(t), at).String())
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	report, err := doctor.Check(t.Context(), p.protects(), doctor.Options{SignIn: open, ClientID: "doctor"})
	if err != nil {
		t.Fatal(err)
	}
	p.compare("signed-in", report)
	alone, err := doctor.CheckServer(t.Context(), p.server.URL, doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.compare("alone", alone)
}

// protects starts a server behind our guard that takes tokens of the provider.
func (p *provider) protects() string {
	p.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	p.Cleanup(server.Close)
	p.handle(&addressed{p.store, server.URL + "/mcp", true})
	guard := p.guard(server.URL+"/mcp", nil)
	mux.Handle("/mcp", guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"notes","version":"1"}}}`))
	})))
	for _, path := range guard.MetadataPaths() {
		mux.Handle(path, guard.Metadata())
	}
	return server.URL + "/mcp"
}

// compare compares what was found with the file of that name.
func (p *provider) compare(name string, report *doctor.Report) {
	p.Helper()
	u, err := url.Parse(report.Target)
	if err != nil {
		p.Fatal(err)
	}
	names := strings.NewReplacer(p.server.URL, "ISSUER", u.Scheme+"://"+u.Host, "SERVER")
	var got strings.Builder
	for _, f := range report.Findings {
		if f.ID != "slow" { // how fast this machine is makes no difference
			got.WriteString(names.Replace(string(f.Severity)+" "+f.ID+": "+f.Saw) + "\n")
		}
	}
	if len(report.Left) > 0 {
		p.Errorf("left %q", report.Left)
	}
	want, err := os.ReadFile("testdata/" + name + ".txt")
	if err != nil || got.String() != string(want) {
		p.Errorf("%v; found %s\n%s", err, name, got.String())
	}
}
