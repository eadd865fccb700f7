package main

import (
	"context"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"unicode/utf8"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/storage"
)

const (
	demoPerson   = "demo"
	demoResource = "http://127.0.0.1:8081/mcp"
)

// relaxed is what --dev made up.
type relaxed struct {
	warnings []string
	// password and introspection are printed at the start. They are empty when the
	// operator chose them.
	password      string
	introspection string
	// kept: the person was there already, with a password that is not known here.
	kept bool
}

// madeUp is where a setting comes from that --dev filled in.
var madeUp = settings.Origin{Rank: settings.ByDefault, Where: "made up by --dev"}

// relax fills in what --dev allows to be left out, and says so in origins.
func (s *serveSettings) relax(origins map[string]settings.Origin, random io.Reader) (relaxed, error) {
	var r relaxed
	warn := func(sentence string) { r.warnings = append(r.warnings, sentence) }
	makeUp := func(name string) { origins[name] = madeUp }
	if s.Store == "" {
		s.Store = "embedded:"
		makeUp("store")
	}
	if s.Store.Embedded() {
		warn("people, clients and grants are kept in this process and lost at exit: --store redis://… keeps them")
	}
	if len(s.MasterKeys) == 0 && s.Store.Embedded() {
		key := make([]byte, 32)
		if _, err := io.ReadFull(random, key); err != nil {
			return r, fmt.Errorf("master key: %w", err)
		}
		s.MasterKeys = settings.MasterKeys{key}
		makeUp("master-keys")
		warn("the master key is made up and forgotten at exit: AUTHZ_MASTER_KEYS sets one")
	}
	if s.Registration == "" {
		s.Registration = string(authz.RegistrationOpen)
		makeUp("registration")
		warn("anybody who reaches this server may register clients: --registration closed ends that")
	}
	if origins["registration-quota"].Rank == settings.ByDefault && s.Registration != string(authz.RegistrationClosed) {
		s.RegistrationQuota = 0
		makeUp("registration-quota")
		warn("clients may register as often as they like: --registration-quota sets a bound")
	}
	warn("cookies are shared between the ports of a host: whatever else people open on this one is sent those of their sign-in here")
	if s.InsecureAllowLoopback {
		warn("clients may have documents, keys and logos fetched from this machine: leave out --insecure-allow-loopback")
	}
	if len(s.Resources) == 0 {
		s.Resources = demoResources(s.DevResource)
		warn("tokens are for a demo resource that is made up: list yours under resources: in the file that --config names")
	}
	if origins["admin-listen"].Rank == settings.ByDefault {
		s.AdminListen = off
		makeUp("admin-listen")
	}
	if s.Issuer == "" && validAddress(s.Listen) == nil {
		s.follow(s.Listen)
		makeUp("issuer")
	}
	err := s.relaxSecrets(&r, origins, random)
	r.warnings = append(r.warnings, s.exposed()...)
	return r, err
}

// relaxSecrets gives the person demo a password and every resource without its own
// credential one to introspect with.
func (s *serveSettings) relaxSecrets(r *relaxed, origins map[string]settings.Origin, random io.Reader) error {
	var err error
	if s.DevPassword == "" {
		if r.password, err = randomSecret(random); err != nil {
			return err
		}
		s.DevPassword = settings.Secret(r.password)
		origins["dev-password"] = madeUp
	}
	r.warnings = append(r.warnings, "there is a person demo who can sign in: authz user add is for everybody else")
	if s.DevIntrospectionSecret == "" {
		if r.introspection, err = randomSecret(random); err != nil {
			return err
		}
		s.DevIntrospectionSecret = settings.Secret(r.introspection)
		origins["dev-introspection-secret"] = madeUp
	}
	if n := utf8.RuneCountInString(string(s.DevIntrospectionSecret)); n < settings.MinSecret {
		r.warnings = append(r.warnings, fmt.Sprintf("dev-introspection-secret has only %d characters: outside --dev it would be refused", n))
	}
	shared := false
	for i := range s.Resources {
		if s.Resources[i].Introspection == nil {
			s.Resources[i].Introspection = &authz.IntrospectionClient{ID: s.Resources[i].URI, Secret: string(s.DevIntrospectionSecret)}
			shared = true
		}
	}
	if shared {
		r.warnings = append(r.warnings, "resources introspect with their URI and one shared secret: set introspection: for each in the file that --config names")
	} else {
		r.introspection = ""
	}
	return nil
}

func loopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// demoResources are the resources that --dev makes up, all with the scopes of the demo.
func demoResources(uris []string) []authz.Resource {
	if len(uris) == 0 {
		uris = []string{demoResource}
	}
	var out []authz.Resource
	for i, uri := range uris {
		out = append(out, authz.Resource{
			URI: uri, Name: demoName(uri), Default: i == 0,
			Scopes: []authz.Scope{
				{Name: "notes:read", Description: "Read your notes"},
				{Name: "notes:write", Description: "Add and change notes"},
			},
		})
	}
	return out
}

// demoName tells people several demo resources apart.
func demoName(uri string) string {
	if u, err := url.Parse(uri); err == nil && uri != demoResource {
		return "Notes (demo at " + u.Host + u.Path + ")"
	}
	return "Notes (demo)"
}

// randomSecret returns 120 random bits in a form that is easy to type.
func randomSecret(random io.Reader) (string, error) {
	b := make([]byte, 15)
	if _, err := io.ReadFull(random, b); err != nil {
		return "", fmt.Errorf("random secret: %w", err)
	}
	text := strings.ToLower(base32.StdEncoding.EncodeToString(b))
	return strings.Join([]string{text[:6], text[6:12], text[12:18], text[18:]}, "-"), nil
}

// admitDemo makes sure that the person demo exists. Several processes over one store
// may do so at once: the first adds the person, the others find them. A password that
// the operator chose is set, a random one never replaces one that somebody may be using.
func (s *serveSettings) admitDemo(ctx context.Context, store *storage.Store, r *relaxed) error {
	_, err := admin.AddUser(ctx, store, demoPerson, string(s.DevPassword))
	switch {
	case !errors.Is(err, storage.ErrConflict):
		return err
	case r.password == "":
		return s.keepDemo(ctx, store)
	}
	r.password, r.kept = "", true
	return nil
}

// keepDemo sets the password that the operator chose, if it is another one: setting it
// ends sessions, and several processes may start over one store.
func (s *serveSettings) keepDemo(ctx context.Context, store *storage.Store) error {
	same, err := admin.HasPassword(ctx, store, demoPerson, string(s.DevPassword))
	if same || err != nil {
		return err
	}
	return admin.SetPassword(ctx, store, demoPerson, string(s.DevPassword))
}

// tell lists what is relaxed.
func (r relaxed) tell(w io.Writer) {
	if len(r.warnings) == 0 {
		return
	}
	fmt.Fprintln(w, "Relaxed by --dev, for one person on one machine:")
	for _, sentence := range r.warnings {
		fmt.Fprintf(w, "  - %s\n", sentence)
	}
}

// signIn says how to sign in as demo.
func (r relaxed) signIn() string {
	switch {
	case r.kept:
		return demoPerson + ", with the password from an earlier start (AUTHZ_DEV_PASSWORD sets another)"
	case r.password == "":
		return demoPerson + ", with the password in AUTHZ_DEV_PASSWORD"
	}
	return demoPerson + " / " + r.password
}
