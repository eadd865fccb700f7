package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/internal/passwords"
	"gatehouse.example/storage"
)

const (
	demoPerson   = "demo"
	demoResource = "http://127.0.0.1:8081/mcp"
)

// relaxed is the result of filling in the settings that --dev allows to be left out.
type relaxed struct {
	warnings []string // printed at the start, one for each relaxation
	// password and introspection are printed at the start. They are empty if the operator
	// chose them.
	password      string
	introspection string
	// kept reports that the person demo existed before, with a password that is not known.
	kept bool
}

// madeUp is the origin of a setting that --dev filled in.
var madeUp = settings.Origin{Rank: settings.ByDefault, Where: "made up by --dev"}

// relaxation fills in the settings of a server for --dev.
type relaxation struct {
	*serveSettings
	relaxed
	origins map[string]settings.Origin
	random  io.Reader
}

// warn adds a warning if the setting that it is about is relaxed.
func (r *relaxation) warn(applies bool, sentence string) {
	if applies {
		r.warnings = append(r.warnings, sentence)
	}
}

// makeUp records that --dev chose the value of a setting.
func (r *relaxation) makeUp(name string) { r.origins[name] = madeUp }

// byDefault reports whether the operator left a setting at its default.
func (r *relaxation) byDefault(name string) bool {
	return r.origins[name].Rank == settings.ByDefault
}

// relax fills in the settings that --dev allows to be left out, and records that in origins.
func (s *serveSettings) relax(origins map[string]settings.Origin, random io.Reader) (relaxed, error) {
	s.keepMadeUp()
	r := &relaxation{serveSettings: s, origins: origins, random: random}
	if err := r.store(); err != nil {
		return r.relaxed, err
	}
	r.registration()
	r.warn(true, "cookies are shared between the ports of a host: other servers on this host receive the cookies of a sign-in here")
	r.warn(s.InsecureAllowLoopback, "clients may have documents, keys and logos fetched from this machine: leave out --insecure-allow-loopback")
	if len(s.Resources) == 0 {
		s.Resources = demoResources(s.DevResource)
		r.warn(true, "tokens are for a demo resource that is made up: list yours under resources: in the file that --config names")
	}
	r.listeners()
	err := r.secrets()
	r.warnings = append(r.warnings, s.exposed()...)
	return r.relaxed, err
}

// keepMadeUp takes what is made up at random from the settings before, when they are read again.
func (s *serveSettings) keepMadeUp() {
	if s.before == nil {
		return
	}
	s.DevPassword = cmp.Or(s.DevPassword, s.before.DevPassword)
	s.DevIntrospectionSecret = cmp.Or(s.DevIntrospectionSecret, s.before.DevIntrospectionSecret)
	if len(s.MasterKeys) == 0 {
		s.MasterKeys = s.before.MasterKeys
	}
}

// store chooses the embedded store, and a master key for it.
func (r *relaxation) store() error {
	if r.Store == "" {
		r.Store = "embedded:"
		r.makeUp("store")
	}
	r.warn(r.Store.Embedded(), "people, clients and grants are kept in this process and lost at exit: --store file:PATH keeps them")
	if len(r.MasterKeys) > 0 || !r.Store.Embedded() {
		return nil
	}
	key := make([]byte, 32)
	if _, err := io.ReadFull(r.random, key); err != nil {
		return fmt.Errorf("master key: %w", err)
	}
	r.MasterKeys = settings.MasterKeys{key}
	r.makeUp("master-keys")
	r.warn(true, "the master key is made up and gone at exit: AUTHZ_MASTER_KEYS sets one")
	return nil
}

// registration opens registration, without a limit.
func (r *relaxation) registration() {
	if r.Registration == "" {
		r.Registration = string(authz.RegistrationOpen)
		r.makeUp("registration")
		r.warn(true, "anybody who reaches this server may register clients: --registration closed ends that")
	}
	if r.byDefault("registration-quota") && r.Registration != string(authz.RegistrationClosed) {
		r.RegistrationQuota = 0
		r.makeUp("registration-quota")
		r.warn(true, "clients may register as often as they like: --registration-quota sets a bound")
	}
}

// listeners turns the admin listener off, and derives the issuer from the public listener.
func (r *relaxation) listeners() {
	if r.byDefault("admin-listen") {
		r.AdminListen = off
		r.makeUp("admin-listen")
	}
	if r.Issuer == "" && validAddress(r.Listen) == nil {
		r.follow(r.Listen)
		r.makeUp("issuer")
	}
}

// secrets gives the person demo a password, and an introspection secret to every resource
// without a credential of its own.
func (r *relaxation) secrets() error {
	var err error
	if r.DevPassword == "" {
		if r.password, err = randomSecret(r.random); err != nil {
			return err
		}
		r.DevPassword = settings.Secret(r.password)
		r.makeUp("dev-password")
	}
	r.warn(true, "there is a person demo who can sign in: with --store file:PATH, authz user add adds other people")
	if r.DevIntrospectionSecret == "" {
		if r.introspection, err = randomSecret(r.random); err != nil {
			return err
		}
		r.DevIntrospectionSecret = settings.Secret(r.introspection)
		r.makeUp("dev-introspection-secret")
	}
	n := utf8.RuneCountInString(string(r.DevIntrospectionSecret))
	r.warn(n < settings.MinSecret, fmt.Sprintf("dev-introspection-secret has only %d characters: outside --dev it would be refused", n))
	shared := r.shareSecret()
	r.warn(shared, "resources introspect with their URI and one shared secret: set introspection: for each in the file that --config names")
	if !shared {
		r.introspection = ""
	}
	return nil
}

// shareSecret sets the credential of every resource without one. It reports whether there was
// such a resource.
func (r *relaxation) shareSecret() (shared bool) {
	for i := range r.Resources {
		if resource := &r.Resources[i]; resource.Introspection == nil {
			resource.Introspection = &authz.IntrospectionClient{ID: resource.URI, Secret: string(r.DevIntrospectionSecret)}
			shared = true
		}
	}
	return shared
}

func loopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// demoResources returns the resources that --dev makes up, all with the scopes of the demo.
func demoResources(uris []string) []authz.Resource {
	if len(uris) == 0 {
		uris = []string{demoResource}
	}
	var out []authz.Resource
	for i, uri := range uris {
		out = append(out, authz.Resource{
			URI: uri, Name: demoName(uri), Default: i == 0 && !strings.Contains(uri, "{"),
			Scopes: []authz.Scope{
				{Name: "notes:read", Description: "Read your notes"},
				{Name: "notes:write", Description: "Add and change notes"},
			},
		})
	}
	return out
}

// demoName returns a name by which people can tell several demo resources apart.
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

// admitDemo adds the person demo unless they exist. Several processes over one store may do so
// at the same time: the first adds the person, the others find them. A password that the
// operator chose is set; a random one never replaces a password that may be in use.
func (s *serveSettings) admitDemo(ctx context.Context, store *storage.Store, r *relaxed) error {
	err := s.addDemo(ctx, store, r)
	switch {
	case !errors.Is(err, storage.ErrConflict):
		return err
	case r.password == "":
		return s.keepDemo(ctx, store)
	}
	r.password, r.kept = "", true
	return nil
}

// addDemo adds the person demo. A random password needs no work against guessing, which would take
// half of the time of a start.
func (s *serveSettings) addDemo(ctx context.Context, store *storage.Store, r *relaxed) error {
	if r.password == "" {
		_, err := admin.AddUser(ctx, store, demoPerson, string(s.DevPassword))
		return err
	}
	hash, err := passwords.HashDrawn(rand.Reader, r.password)
	if err != nil {
		return err
	}
	subject, err := store.NewID()
	if err != nil {
		return err
	}
	return store.CreateUser(ctx, storage.User{Name: demoPerson, Subject: subject, Password: hash, Created: time.Now().UTC()})
}

// keepDemo sets the password that the operator chose, if it differs from the current one:
// setting it ends sessions, and several processes may start over one store.
func (s *serveSettings) keepDemo(ctx context.Context, store *storage.Store) error {
	same, err := admin.HasPassword(ctx, store, demoPerson, string(s.DevPassword))
	if same || err != nil {
		return err
	}
	return admin.SetPassword(ctx, store, demoPerson, string(s.DevPassword))
}

// print lists the relaxations.
func (r relaxed) print(w io.Writer) {
	if len(r.warnings) == 0 {
		return
	}
	fmt.Fprintln(w, "Relaxed by --dev, for one person on one machine:")
	for _, sentence := range r.warnings {
		fmt.Fprintf(w, "  - %s\n", sentence)
	}
}

// signIn returns a sentence on how to sign in as demo.
func (r relaxed) signIn() string {
	switch {
	case r.kept:
		return demoPerson + ", with the password from an earlier start (AUTHZ_DEV_PASSWORD sets another)"
	case r.password == "":
		return demoPerson + ", with the password in AUTHZ_DEV_PASSWORD"
	}
	return demoPerson + " / " + r.password
}
