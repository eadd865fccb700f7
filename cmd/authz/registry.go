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
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/middleware"
	"gatehouse.example/registry"
	"gatehouse.example/registry/mirror"
	"gatehouse.example/registry/serve"
	"gatehouse.example/registry/upstream"
	"gatehouse.example/safefetch"
	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/redis"
)

// registryVerbs keep a catalogue of servers.
type registryVerbs struct {
	Serve registryServe `cmd:"" help:"Serve the catalogue, and keep it current."`
	Sync  registrySync  `cmd:"" help:"Bring the catalogue up to date once."`
}

// registrySettings are what both verbs can be told. They have the names and the sources of
// [serveSettings]. In the file of an authorization server they stand under the key registry;
// see loadRegistry.
type registrySettings struct {
	storePlace

	MasterKeys     settings.MasterKeys `placeholder:"KEYS" help:"Keys that seal secrets in the store, if the authorization server uses it too; see authz serve."`
	MasterKeysFile string              `placeholder:"FILE" help:"File that holds them."`

	Upstream             string `placeholder:"URL" help:"The registry to mirror, such as https://registry.example.com (default: none, only servers of your own)."`
	InsecureUpstreamHTTP bool   `name:"insecure-upstream-http" help:"The upstream may be http on another machine: whoever is on the way there decides what is in the catalogue."`

	MetaKey       string   `placeholder:"KEY" help:"The key in _meta under which this registry speaks, such as com.example.registry/catalogue. No upstream does."`
	ServersFile   string   `placeholder:"FILE" help:"YAML file with servers of your own; read again when it changes."`
	ListResources bool     `default:"true" negatable:"" help:"List the servers under resources: in the file of the authorization server (default ${default})."`
	Resource      string   `placeholder:"URL" help:"The URL by which clients know this registry: whoever reads it then needs a token for it with the scope mcp-registry:read."`
	Issuer        []string `sep:"none" placeholder:"URL" help:"With --resource: an authorization server whose tokens are accepted; repeatable."`
	proxySettings
	LogFormat string `default:"text" placeholder:"text|json" help:"How log lines are written (default ${default})."`

	// named are the servers of our own under servers, resources those under resources.
	named, resources []registry.OwnServer
	// keepsOwn says that there are such lists, if only empty ones: servers of our own that are
	// in the catalogue and not in a list any more have to go.
	keepsOwn bool
}

// registryServe serves the catalogue.
type registryServe struct {
	registrySettings

	Listen       string            `default:"127.0.0.1:8083" placeholder:"ADDR" help:"Address to listen on; port 0 takes any (default ${default})."`
	AdminListen  string            `default:"off" placeholder:"ADDR" help:"Address of /livez, /readyz and /status (default ${default})."`
	Interval     settings.Duration `default:"1h" placeholder:"TIME" help:"How often the upstream is asked for updates (default ${default})."`
	FullInterval settings.Duration `default:"7d" placeholder:"TIME" help:"How often it is asked for everything (default ${default})."`
	MetaFile     string            `placeholder:"FILE" help:"YAML or JSON file with what is said under --meta-key about servers; read again when it changes."`
	Title        string            `default:"Servers" placeholder:"TEXT" help:"The heading of the pages for people (default ${default})."`
	CacheAge     settings.Duration `default:"0s" placeholder:"TIME" help:"How long readers may keep an answer without asking again (default ${default})."`
	Icons        bool              `default:"true" negatable:"" help:"Fetch the icons of servers, and show them on the pages (default ${default})."`
	TLSCert      string            `name:"tls-cert" placeholder:"FILE" help:"Certificate chain in PEM; with --tls-key."`
	TLSKey       string            `name:"tls-key" placeholder:"FILE" help:"Private key in PEM; with --tls-cert."`

	listenSettings
}

// registryScope is what a token needs to read a protected registry.
const registryScope = "mcp-registry:read"

// Run serves until ctx ends.
func (v *registryServe) Run(ctx context.Context, p *program, k *kong.Context) error {
	warnings, err := p.loadRegistry(k, &v.registrySettings)
	if err = errors.Join(err, v.mistakes()); err != nil {
		return err
	}
	log, flush := p.logger(v.LogFormat)
	defer flush()
	st, err := newSite(ctx, v.Listen, v.AdminListen, v.TLSCert, v.TLSKey)
	if err != nil {
		return err
	}
	defer st.close()
	st.log, st.grace, st.bounds = log, p.grace, v.listenSettings
	for _, sentence := range append(warnings, v.doubts(st.public.Addr())...) {
		log.Warn(sentence)
	}
	store, err := v.open(ctx, func(sentence string) { log.Warn(sentence) })
	if err != nil {
		return err
	}
	defer store.Close()
	keeper, err := v.keeper(store, log, v.Interval, v.FullInterval, nil)
	if err != nil {
		return err
	}
	readers, err := v.readers(store, log, pathOf(v.Resource))
	if err != nil {
		return err
	}
	if err := publish(ctx, keeper); err != nil {
		return err
	}
	v.announce(p.stdout, st)
	probes := st.catalogueProbes(st.probes(store.Ping, tight(store.Room)), keeper)
	return besides(ctx, func() error { return st.serve(ctx, health(readers), probes) }, keeper.Run)
}

// publish brings the servers of our own into the catalogue before anybody reads it, or leaves
// that to the rounds if another process is at it.
func publish(ctx context.Context, keeper *mirror.Mirror) error {
	if err := keeper.PublishOwn(ctx); !errors.Is(err, catalogue.ErrLeased) {
		return err
	}
	return nil
}

// open opens the store, and sees whether the catalogue in it can be read.
func (s *registrySettings) open(ctx context.Context, warn func(string)) (*storage.Store, error) {
	backend, err := redis.Open(ctx, redis.Options{URL: string(cmp.Or(s.Store, embeddedStore)), OnWarning: warn})
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	store, err := storage.New(backend, storage.Options{Issuer: first(s.Issuer), MasterKeys: s.MasterKeys})
	if err != nil {
		return nil, errors.Join(err, backend.Close())
	}
	_, err = catalogue.New(store).State(ctx)
	if errors.Is(err, storage.ErrNoMasterKey) || errors.Is(err, storage.ErrRecord) {
		err = fmt.Errorf("the catalogue in the store cannot be opened: give the master keys and the issuer that it was begun with, or an empty store: %w", err)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// embeddedStore is the store that nobody has to name.
const embeddedStore settings.StoreURL = "embedded:"

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// keeper returns what fills the catalogue.
func (s *registrySettings) keeper(store *storage.Store, log *slog.Logger, interval, full settings.Duration, progress func(mirror.Report)) (*mirror.Mirror, error) {
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	own, err := s.own(log)
	if err != nil {
		return nil, err
	}
	return mirror.New(mirror.Config{
		Catalogue: catalogue.New(store), Client: client, Own: own, MetaKey: s.MetaKey, Logger: log, Progress: progress,
		Interval: time.Duration(interval), FullInterval: time.Duration(full),
	})
}

// client reads the upstream, nil without one.
func (s *registrySettings) client() (*upstream.Client, error) {
	if s.Upstream == "" {
		return nil, nil
	}
	client, err := upstream.New(upstream.Config{
		Base: s.Upstream, InsecureAllowHTTP: s.InsecureUpstreamHTTP, UserAgent: "gatehouse-registry/" + strings.Fields(version())[0],
		HTTP: s.proxySettings.client(),
	})
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %s", s.Upstream, withoutClient(err))
	}
	return client, nil
}

func withoutClient(err error) string {
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "registry/upstream: "), "the address of the upstream: ")
}

// own returns the servers of our own: those of the configuration, and those of a file, which
// are read again when it changes. It is nil if there can be none.
func (s *registrySettings) own(log *slog.Logger) (func() []registry.Item, error) {
	if s.ServersFile != "" {
		file, err := registry.OpenOwnFile(registry.FileConfig{Path: s.ServersFile, Logger: log}, func(data []byte) ([]registry.OwnServer, error) {
			servers, err := readServers(s.ServersFile, data)
			return together(append(servers, s.named...), s.resources), err
		})
		if err != nil {
			return nil, fmt.Errorf("servers-file: %w", err)
		}
		return file.Items, nil
	}
	if !s.keepsOwn {
		return nil, nil
	}
	var items []registry.Item
	for _, server := range together(s.named, s.resources) {
		item, err := server.Item()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return func() []registry.Item { return items }, registry.CheckOwn(items)
}

// readers is what answers the readers of the catalogue, and at which paths.
type readers struct {
	http.Handler
	answers func(path string) bool
}

// readers returns it for paths that begin with a prefix.
func (v *registryServe) readers(store *storage.Store, log *slog.Logger, prefix string) (readers, error) {
	config := serve.Config{Catalogue: catalogue.New(store), Prefix: prefix, Title: v.Title, CacheAge: time.Duration(v.CacheAge), MetaKey: v.MetaKey, Log: log}
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

// guarded is the handler behind a guard.
func (v *registryServe) guarded(handler *serve.Handler, log *slog.Logger) (readers, error) {
	guard, err := middleware.New(middleware.Config{
		Resource: v.Resource, ResourceName: v.Title, AuthorizationServers: v.Issuer, Logger: log,
		Scopes: []string{registryScope}, Policy: middleware.Policy{Scopes: []string{registryScope}},
	})
	if err != nil {
		return readers{}, err
	}
	protected, document, paths := guard.Protect(handler), guard.Metadata(), guard.MetadataPaths()
	front := func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(paths, r.URL.Path) {
			document.ServeHTTP(w, r)
			return
		}
		protected.ServeHTTP(w, r)
	}
	answers := func(path string) bool { return slices.Contains(paths, path) || handler.Answers(path) }
	return readers{http.HandlerFunc(front), answers}, nil
}

// health answers at /healthz and leaves everything else to the handler. It is no
// http.ServeMux, which would clean the names of servers that are in paths.
func health(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			say(w, http.StatusOK, "ok")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// catalogueProbes are the probes, and how the catalogue is kept: /status for people, /metrics
// for Prometheus.
func (st *site) catalogueProbes(probes http.Handler, keeper *mirror.Mirror) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", probes)
	mux.Handle("GET /metrics", st.metrics(keeper))
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTime)
		defer cancel()
		status, err := keeper.Status(ctx)
		if err != nil {
			st.log.Warn("no status", "error", err)
			say(w, http.StatusServiceUnavailable, "the store does not answer")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(status)
	})
	return mux
}

// announce says where the catalogue is read.
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

// reachable is how an address is reached on this machine.
func reachable(addr net.Addr) string {
	host, port, _ := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
