package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/registry"
	"gatehouse.example/registry/mirror"
	"gatehouse.example/registry/upstream"
	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
)

// registryVerbs serve and fill a catalogue of servers.
type registryVerbs struct {
	Serve registryServe `cmd:"" help:"Serve the catalogue, and keep it current."`
	Sync  registrySync  `cmd:"" help:"Bring the catalogue up to date once."`
}

// registrySettings are the settings of both verbs. They have the names and the sources of
// [serveSettings]. In the file of an authorization server they are under the key registry; see
// loadRegistry.
type registrySettings struct {
	storePlace

	MasterKeys     settings.MasterKeys `placeholder:"KEYS" help:"Keys that seal secrets in the store, if the authorization server uses it too; see authz serve."`
	MasterKeysFile string              `placeholder:"FILE" help:"File that contains them."`

	Upstream             string `placeholder:"URL" help:"The registry to mirror, such as https://registry.example.com (default: none, only servers of your own)."`
	InsecureUpstreamHTTP bool   `name:"insecure-upstream-http" help:"Allow an upstream that is http on another machine: an attacker on the network path can change the records of the catalogue."`

	MetaKey       string   `placeholder:"KEY" help:"The key in _meta for the data of this registry, such as com.example.registry/catalogue; data of an upstream under it is removed."`
	ServersFile   string   `placeholder:"FILE" help:"YAML file with servers of your own; read again when it changes."`
	ListResources bool     `default:"true" negatable:"" help:"List the servers under resources: in the file of the authorization server (default ${default})."`
	Resource      string   `placeholder:"URL" help:"The URL by which clients know this registry. When it is set, readers need a token for it with the scope mcp-registry:read."`
	Issuer        []string `sep:"none" placeholder:"URL" help:"With --resource: an authorization server whose tokens are accepted; repeatable."`
	proxySettings
	LogFormat string `default:"text" placeholder:"text|json" help:"How log lines are written (default ${default})."`

	// named are the operator's own servers under servers, resources those under resources.
	named, resources []registry.OwnServer
	// keepsOwn reports that there are such lists, even if they are empty: own servers that are in
	// the catalogue and no longer in a list are removed.
	keepsOwn bool
	// file is the file with the settings, nil for none.
	file *settings.Document
}

// open opens the store, and checks that the catalogue in it can be read.
func (s *registrySettings) open(ctx context.Context, o storeOptions) (*storage.Store, error) {
	backend, err := openBackend(ctx, cmp.Or(s.Store, embeddedStore), o)
	if err != nil {
		return nil, err
	}
	store, err := storage.New(backend, storage.Options{Issuer: first(s.Issuer), MasterKeys: s.MasterKeys})
	if err != nil {
		return nil, errors.Join(err, backend.Close())
	}
	_, err = catalogue.New(store).State(ctx)
	if errors.Is(err, storage.ErrNoMasterKey) || errors.Is(err, storage.ErrRecord) {
		err = fmt.Errorf("the catalogue in the store cannot be opened, a new registry needs an empty store: %w", err)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// embeddedStore is the default store.
const embeddedStore settings.StoreURL = "embedded:"

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// mirror returns the mirror that fills the catalogue.
func (s *registrySettings) mirror(store *storage.Store, log *slog.Logger, interval, full settings.Duration, progress func(mirror.Report)) (*mirror.Mirror, error) {
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

// client returns the client of the upstream, nil without an upstream.
func (s *registrySettings) client() (*upstream.Client, error) {
	if s.Upstream == "" {
		return nil, nil
	}
	client, err := upstream.New(upstream.Config{
		Base: s.Upstream, InsecureAllowHTTP: s.InsecureUpstreamHTTP, UserAgent: "gatehouse-registry/" + thisRelease().Version,
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

// own returns a function for the current list of the operator's own servers: those of the
// configuration, and those of a file, which is read again when it changes. It is nil if there
// is no such list.
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
