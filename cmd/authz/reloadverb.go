package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/cmd/authz/internal/settings"
)

// reloadPath is the path on the admin listener.
const reloadPath = "/reload"

// reloading counts reloads, and adds POST /reload to the handler of the admin listener. Only programs of this machine
// may ask, and neither a browser nor a proxy for somebody else.
func (st *site) reloading(next http.Handler, r *reloader) http.Handler {
	st.countReloads(r)
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("POST "+reloadPath, func(w http.ResponseWriter, req *http.Request) {
		if !fromThisMachine(req) {
			answer(w, http.StatusForbidden, "settings are reloaded for a program of the same machine only: use authz reload there")
			return
		}
		result := r.reload(req.Context())
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if !result.Done {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
		_ = json.NewEncoder(w).Encode(result)
	})
	return mux
}

// borrowed are headers of requests that a browser or a proxy sends for somebody else.
var borrowed = []string{"Origin", "Sec-Fetch-Site", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"}

// fromThisMachine reports whether a program of this machine sent a request: its address is loopback,
// or the address that it dialled.
func fromThisMachine(r *http.Request) bool {
	for _, name := range borrowed {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	from := peer.Addr().Unmap()
	own, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return from.IsLoopback() || ok && own.AddrPort().Addr().Unmap() == from
}

// reloadVerb lets a running server read its settings again.
type reloadVerb struct {
	Config      string `placeholder:"FILE" help:"YAML file of the server, for its admin-listen."`
	AdminListen string `default:"127.0.0.1:9090" placeholder:"ADDR" help:"The admin listener of the server, as that was started (default ${default})."`
	JSON        bool   `name:"json" help:"Print the result as JSON."`
}

// reloadTime is the time within which a server must answer.
const reloadTime = time.Minute

// Run asks the server and prints what it says. The status is 1 if nothing has changed because of a
// mistake. Mistakes in the file are for the server to tell.
func (v *reloadVerb) Run(ctx context.Context, p *program, k *kong.Context) error {
	flags := k.Selected().Flags
	from, err := settings.FindSources(k.Path, flags, p.env, []string{"admin-listen"})
	if from != nil {
		_, err = from.Fill(flags)
	}
	url, where := v.url()
	switch {
	case url == "" && err == nil:
		return usageError{fmt.Errorf("%s: the answer comes from the admin listener: turn it on, or send SIGHUP to the server, whose log has the result", where)}
	case url == "":
		return usageError{errors.Join(err, errors.New(where))}
	}
	result, err := ask(ctx, url)
	if err != nil {
		return err
	}
	if v.JSON {
		err = p.printJSON(result)
	} else {
		_, err = io.WriteString(p.stdout, result.sentences())
	}
	if err == nil && !result.Done {
		err = fmt.Errorf("nothing has changed:\n%s", strings.Join(result.Mistakes, "\n"))
	}
	return err
}

// url returns the URL to ask, or "" and why there is none.
func (v *reloadVerb) url() (url, why string) {
	if v.AdminListen == off {
		return "", "admin-listen is off"
	}
	host, port, err := net.SplitHostPort(v.AdminListen)
	if err != nil || port == "0" {
		return "", fmt.Sprintf("admin-listen %q is not an address to ask: write host:port, for example 127.0.0.1:9090", v.AdminListen)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.Is6() {
			host = "::1"
		}
	}
	return "http://" + net.JoinHostPort(host, port) + reloadPath, ""
}

// ask asks a server to reload.
func ask(ctx context.Context, url string) (result reloaded, err error) {
	ctx, cancel := context.WithTimeout(ctx, reloadTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return result, usageError{fmt.Errorf("%s is not a URL", url)}
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req) // no proxy, no redirect
	if err != nil {
		return result, fmt.Errorf("no server answers at %s: %w; name its admin-listen, or send it SIGHUP", url, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode == http.StatusNotFound {
		return result, fmt.Errorf("the program at %s reloads no settings: restart it", url)
	}
	if err == nil && resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusUnprocessableEntity {
		err = fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(body))
	}
	if err == nil {
		err = json.Unmarshal(body, &result)
	}
	if err != nil {
		return result, fmt.Errorf("%s: %w", url, err)
	}
	return result, nil
}

// sentences says what has changed.
func (r reloaded) sentences() string {
	if !r.Done {
		return ""
	}
	var out strings.Builder
	for _, c := range r.Changed {
		fmt.Fprintf(&out, "changed: %s\n", c)
	}
	for _, c := range r.Restart {
		fmt.Fprintf(&out, "needs a restart: %s\n", c)
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(&out, "warning: %s\n", warning)
	}
	if len(r.Changed)+len(r.Restart) == 0 {
		fmt.Fprintln(&out, "Nothing has changed in the settings.")
	}
	return out.String()
}
