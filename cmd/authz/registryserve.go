package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/middleware"
	"gatehouse.example/registry"
	"gatehouse.example/registry/mirror"
	"gatehouse.example/registry/serve"
	"gatehouse.example/safefetch"
	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/templates"
)

// registryServe serves the catalogue.
type registryServe struct {
	registrySettings

	Listen       string            `default:"127.0.0.1:8083" placeholder:"ADDR" help:"Address to listen on; port 0 takes any (default ${default})."`
	AdminListen  string            `default:"off" placeholder:"ADDR" help:"Address of /livez, /readyz, /status and /metrics (default ${default})."`
	Interval     settings.Duration `default:"1h" placeholder:"TIME" help:"How often the upstream is asked for updates (default ${default})."`
	FullInterval settings.Duration `default:"7d" placeholder:"TIME" help:"How often it is asked for everything (default ${default})."`
	MetaFile     string            `placeholder:"FILE" help:"YAML or JSON file with data about servers, which is added under --meta-key; read again when it changes."`
	Title        string            `default:"Servers" placeholder:"TEXT" help:"The heading of the pages for people (default ${default})."`
	CacheAge     settings.Duration `default:"0s" placeholder:"TIME" help:"How long readers may keep an answer without asking again (default ${default})."`
	Icons        bool              `default:"true" negatable:"" help:"Fetch the icons of servers, and show them on the pages (default ${default})."`
	TLSCert      string            `name:"tls-cert" placeholder:"FILE" help:"Certificate chain in PEM; with --tls-key."`
	TLSKey       string            `name:"tls-key" placeholder:"FILE" help:"Private key in PEM; with --tls-cert."`

	listenSettings

	// pages is the look of the pages: of the file, or of the authorization server that carries the
	// registry.
	pages templates.Look
}

// registryScope is the scope that a token needs to read a protected registry.
const registryScope = "mcp-registry:read"

// Run serves until ctx ends.
func (v *registryServe) Run(ctx context.Context, p *program, k *kong.Context) error {
	warnings, err := p.loadRegistry(k, &v.registrySettings)
	if err = errors.Join(err, v.readPages(), v.mistakes()); err != nil {
		return err
	}
	log, flush := p.logger(v.LogFormat)
	defer flush()
	signals, deaf := p.listen()
	defer deaf()
	st, err := newSite(ctx, v.Listen, v.AdminListen, v.TLSCert, v.TLSKey)
	if err != nil {
		return err
	}
	defer st.close()
	st.log, st.grace, st.bounds = log, p.grace, v.listenSettings
	st.measure()
	for _, sentence := range append(warnings, v.doubts(st.public.Addr())...) {
		log.Warn(sentence)
	}
	store, err := v.open(ctx, ofServer(log))
	if err != nil {
		return err
	}
	defer store.Close()
	m, err := v.mirror(store, log, v.Interval, v.FullInterval, nil)
	if err != nil {
		return err
	}
	readers, err := v.readers(store, log, pathOf(v.Resource))
	if err != nil {
		return err
	}
	if err := publish(ctx, m); err != nil {
		return err
	}
	v.announce(p.stdout, st)
	probes := st.catalogueProbes(st.probes(store.Ping, tight(store.Room)), m)
	return runWith(ctx, func() error { return st.serve(ctx, health(v.withLogo(readers)), probes) }, m.Run, unmoved(signals, log))
}

// unmoved returns a worker that answers SIGHUP with a warning. A registry of its own reads its settings
// at the start only, and should not end for what reloads others.
func unmoved(signals <-chan os.Signal, log *slog.Logger) worker {
	return func(ctx context.Context) error {
		for {
			select {
			case <-signals:
				log.Warn("SIGHUP: a registry does not reload its settings: restart it")
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// publish adds the operator's own servers to the catalogue before it is served. If another
// process fills the catalogue, it leaves that to the next round.
func publish(ctx context.Context, m *mirror.Mirror) error {
	if err := m.PublishOwn(ctx); !errors.Is(err, catalogue.ErrLeased) {
		return err
	}
	return nil
}

// readers is the handler for readers of the catalogue, and the paths that it answers.
type readers struct {
	http.Handler
	answers func(path string) bool
}

// ownTitle returns the title that the operator gave, "" for the default, which the pages have in
// every language.
func (v *registryServe) ownTitle() string {
	if v.Title == "Servers" {
		return ""
	}
	return v.Title
}

// readers returns the handler for paths that begin with a prefix.
func (v *registryServe) readers(store *storage.Store, log *slog.Logger, prefix string) (readers, error) {
	config := serve.Config{Catalogue: catalogue.New(store), Prefix: prefix, Title: v.ownTitle(), CacheAge: time.Duration(v.CacheAge), MetaKey: v.MetaKey, Log: log, Pages: v.pages}
	if v.MetaFile != "" {
		file, err := registry.OpenMetaFile(registry.FileConfig{Path: v.MetaFile, Logger: log}, func(data []byte) (json.RawMessage, error) {
			return readMeta(v.MetaFile, data)
		})
		if err != nil {
			return readers{}, fmt.Errorf("meta-file: %w", err)
		}
		config.Enrich, config.Revision = file.Enrich, file.Revision
	}
	if v.Icons {
		fetching, err := v.fetching()
		if err != nil {
			return readers{}, err
		}
		fetcher, err := safefetch.New(fetching)
		if err != nil {
			return readers{}, err
		}
		config.Icons = fetcher
	}
	handler, err := serve.New(config)
	if err != nil || v.Resource == "" {
		return readers{handler, handler.Answers}, err
	}
	return v.guarded(handler, log)
}

// guarded returns the handler behind a guard. It has no sessions to bind, so its answers reach readers as
// they are, compressed too; and it answers preflights itself, because it knows the headers of its readers.
func (v *registryServe) guarded(handler *serve.Handler, log *slog.Logger) (readers, error) {
	guard, err := middleware.New(middleware.Config{
		Resource: v.Resource, ResourceName: v.Title, AuthorizationServers: v.Issuer, Logger: log,
		Scopes: []string{registryScope}, Policy: middleware.Policy{Scopes: []string{registryScope}},
		InsecureUnboundSessions: true,
	})
	if err != nil {
		return readers{}, err
	}
	protected, document, paths := guard.Protect(handler), guard.Metadata(), guard.MetadataPaths()
	front := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case slices.Contains(paths, r.URL.Path):
			document.ServeHTTP(w, r)
		case r.Method == http.MethodOptions:
			handler.ServeHTTP(w, r)
		default:
			protected.ServeHTTP(w, r)
		}
	}
	answers := func(path string) bool { return slices.Contains(paths, path) || handler.Answers(path) }
	return readers{http.HandlerFunc(front), answers}, nil
}

// health answers at /healthz and passes every other request to next. It is no http.ServeMux,
// because that would clean paths, which contain names of servers.
func health(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			answer(w, http.StatusOK, "ok")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// catalogueProbes returns a handler that adds the status of the catalogue to the probes: /status
// for people, and its figures to /metrics.
func (st *site) catalogueProbes(probes http.Handler, m *mirror.Mirror) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", probes)
	st.countCatalogue(m)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTime)
		defer cancel()
		status, err := m.Status(ctx)
		if err != nil {
			st.log.Warn("no status", "error", err)
			answer(w, http.StatusServiceUnavailable, "the store does not answer")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(status)
	})
	return mux
}

// announce prints the addresses of the catalogue.
func (v *registryServe) announce(w io.Writer, st *site) {
	line := func(label, value string) { fmt.Fprintf(w, "  %-14s %s\n", label, value) }
	base := strings.TrimRight(v.Resource, "/")
	if base == "" {
		base = v.scheme() + reachable(st.public.Addr())
	}
	fmt.Fprintln(w, "The registry is ready.")
	line("listening on", st.public.Addr().String())
	if st.admin != nil {
		line("admin on", st.admin.Addr().String())
	}
	line("mirrors", cmp.Or(v.Upstream, "nothing"))
	if v.Resource != "" {
		line("protected", "for tokens with "+registryScope+" from "+strings.Join(v.Issuer, ", "))
	}
	line("pages", base+"/")
	line("programs", base+"/v0.1/servers")
}

func (v *registryServe) scheme() string {
	if v.TLSCert != "" {
		return "https://"
	}
	return "http://"
}

// reachable returns the host and port at which a listener is reached from this machine.
func reachable(addr net.Addr) string {
	host, port, _ := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
