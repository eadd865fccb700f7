package main

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptrace"
	"testing"
)

// caller is a client of HTTP/2 that trusts some certificates.
func caller(t *testing.T, pool *x509.CertPool) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost"}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// called is an answer: its protocol, the digest of the server's certificate, and whether the
// connection was there before.
type called struct {
	major  int
	cert   [32]byte
	reused bool
}

func call(t *testing.T, client *http.Client, url string) (got called, err error) {
	t.Helper()
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { got.reused = info.Reused }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return got, err
	}
	defer resp.Body.Close()
	got.major, got.cert = resp.ProtoMajor, sha256.Sum256(resp.TLS.PeerCertificates[0].Raw)
	return got, nil
}

// Every server speaks HTTP/2, and gives a new certificate to new connections without a restart;
// those that are open go on.
func TestCertificatesAreTakenWithoutARestart(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, tls ...string) *running{
		"serve": func(t *testing.T, tls ...string) *running {
			return start(t, nil, append([]string{"--dev", "--listen", "127.0.0.1:0"}, tls...)...)
		},
		"gateway": func(t *testing.T, tls ...string) *running {
			return startGateway(t, deadline, nil, append([]string{"--issuer", "https://auth.example.com", "--upstream", echo(t)}, tls...)...)
		},
		"registry": func(t *testing.T, tls ...string) *running { return startRegistry(t, nil, tls...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			before := writeCertificate(t, dir)
			r := run(t, "--tls-cert", dir+"/cert.pem", "--tls-key", dir+"/key.pem")
			url, old := "https://"+r.shown("listening on")+"/healthz", caller(t, before)
			first, err := call(t, old, url)
			if err != nil || first.major != 2 {
				t.Fatalf("over HTTP/%d, %v", first.major, err)
			}
			fresh := caller(t, writeCertificate(t, dir))
			eventually(t, "a new connection gets the new certificate", func() bool {
				got, err := call(t, fresh, url)
				return err == nil && got.major == 2 && got.cert != first.cert
			})
			if again, err := call(t, old, url); err != nil || !again.reused || again.cert != first.cert {
				t.Errorf("the open connection: %+v, %v", again, err)
			}
		})
	}
}
