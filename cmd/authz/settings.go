package main

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/safefetch"
	"gatehouse.example/storage"
)

// storePlace are the settings that name the store.
type storePlace struct {
	Config    string            `placeholder:"FILE" help:"YAML file with settings."`
	Store     settings.StoreURL `placeholder:"URL" help:"Where state is kept: redis://, redis+sentinel://, redis+cluster://, with rediss in place of redis over TLS, file:PATH (one machine), or embedded: (lost at exit)."`
	StoreFile string            `placeholder:"FILE" help:"File that contains the store URL."`
}

// storeSettings are the settings of a verb that works on a store.
type storeSettings struct {
	storePlace
	sealSettings
	actSettings
}

// actSettings are the settings of the audit trail of verbs, which serve has for their sake: verbs
// read them in the file of the server.
type actSettings struct {
	AuditVerbs string `placeholder:"FILE" help:"Audit trail of the verbs of operators: each writes what it is about to change, or does nothing (default: none)."`
}

// sealSettings are what reading and writing records needs: they are sealed for the issuer, under
// the master keys.
type sealSettings struct {
	Issuer         string              `placeholder:"URL" help:"The issuer of the server: records are sealed for it."`
	MasterKeys     settings.MasterKeys `placeholder:"KEYS" help:"The master keys of the server."`
	MasterKeysFile string              `placeholder:"FILE" help:"File that contains them."`
	Records        string              `default:"auto" placeholder:"auto|sealed" help:"The same as for the server: sealed refuses records without a seal (default ${default})."`
}

// serveSettings are all settings of serve, each once, with its default. The name of a flag is
// the name of the key in the file and, in capitals after AUTHZ_, of the environment variable. A
// secret has a second setting with the suffix -file, which names a file to read it from.
type serveSettings struct {
	storePlace

	Dev                        bool            `help:"Try everything on this machine: missing settings are made up, and each relaxation is listed at the start."`
	DevResource                []string        `sep:"none" placeholder:"URI" help:"With --dev: a resource that tokens are issued for, instead of the demo resource; repeatable."`
	DevPassword                settings.Secret `help:"With --dev: the password of the person demo (default: random, printed)."`
	DevPasswordFile            string          `placeholder:"FILE" help:"File that contains it."`
	DevIntrospectionSecret     settings.Secret `placeholder:"SECRET" help:"With --dev: the secret with which resources introspect (default: random, printed)."`
	DevIntrospectionSecretFile string          `placeholder:"FILE" help:"File that contains it."`

	Listen      string `default:"127.0.0.1:8080" placeholder:"ADDR" help:"Address of the public listener; port 0 takes any (default ${default})."`
	AdminListen string `default:"127.0.0.1:9090" placeholder:"ADDR" help:"Address of /livez, /readyz, /metrics and /reload (with --registry-at also /status), or off (default ${default}; off with --dev)."`
	Issuer      string `placeholder:"URL" help:"The https URL by which clients know this server (with --dev: made from --listen)."`
	TLSCert     string `name:"tls-cert" placeholder:"FILE" help:"Certificate chain in PEM; with --tls-key."`
	TLSKey      string `name:"tls-key" placeholder:"FILE" help:"Private key in PEM; with --tls-cert."`

	acmeSettings

	listenSettings

	TrustedProxies []string `placeholder:"CIDR" help:"Networks of proxies in front of the server, whose X-Forwarded-For names the address of the client; repeatable."`

	MasterKeys     settings.MasterKeys `placeholder:"KEYS" help:"Keys that seal records in the store, and secrets in them: base64 of 32 bytes each, comma separated; the first seals, all open."`
	MasterKeysFile string              `placeholder:"FILE" help:"File that contains them."`
	Records        string              `default:"auto" placeholder:"auto|sealed" help:"Records without a seal: auto follows the switch in the store, sealed always refuses them; see authz key seal-records (default ${default})."`

	Registration              string   `placeholder:"open|token|closed" help:"Who may register clients: open for any client, token with an initial access token, closed for none (with --dev: open)."`
	RegistrationQuota         int      `default:"600" placeholder:"N" help:"How many clients of one software may register in an hour from one address, and ten times as many of all software; their size counts too; 0 for any number (default ${default}; 0 with --dev)."`
	RegistrationRedirectHosts []string `placeholder:"HOST" help:"The only hosts that clients may register in redirect URIs, such as example.com or *.example.com; repeatable (default: any)."`
	RegistrationSchemes       []string `placeholder:"SCHEME" help:"The only private-use schemes that clients may register in redirect URIs, such as cursor; repeatable (default: domain names in reverse order, such as com.example.app, and those of widely used clients)."`
	RegistrationRefuse        []string `placeholder:"KIND" help:"Kinds of redirect URI that clients may not register: loopback, private-use; repeatable."`
	RegistrationScopes        []string `placeholder:"SCOPE" help:"The only scopes that clients may register; repeatable (default: any)."`
	RegistrationGrantTypes    []string `placeholder:"TYPE" help:"The only grant types that clients may register; repeatable (default: any supported type)."`

	limitSettings

	ClientUnused settings.Duration `default:"7d" placeholder:"TIME" help:"How long a registered client is kept that was never used (default ${default})."`
	ClientIdle   settings.Duration `default:"90d" placeholder:"TIME" help:"How long a registered client without a live grant is kept after its last use (default ${default})."`

	ClientDocuments      string   `default:"ask" placeholder:"ask|allow|deny|off" help:"Client ID metadata documents: ask warns at consent that their host is not known, allow does not, deny accepts only hosts of --client-documents-allow (default ${default})."`
	ClientDocumentsAllow []string `placeholder:"HOST" help:"Hosts whose documents are trusted, such as example.com or *.example.com; repeatable."`
	ClientDocumentsDeny  []string `placeholder:"HOST" help:"Hosts whose documents are refused; repeatable."`

	egressSettings

	AssertionAudience string `default:"issuer" placeholder:"issuer|issuer-or-endpoint" help:"What client assertions may have as audience; issuer-or-endpoint accepts the token endpoint too, which allows another authorization server of a client to use its assertions here, CVE-2025-27370 (default ${default})."`

	InsecureAllowLoopback bool `help:"With --dev: clients may name documents, keys and logos on this machine, and have them fetched."`

	SigningAlgorithm string            `default:"ES256" placeholder:"ALG" help:"Algorithm of new signing keys: ES256, EdDSA or RS256 (default ${default})."`
	KeyRotation      settings.Duration `default:"30d" placeholder:"TIME" help:"How long a signing key is used before it is replaced; 0 for ever (default ${default})."`
	KeyCache         settings.Duration `default:"5m" placeholder:"TIME" help:"How long the published keys may be cached; a new key is published for twice as long before it signs (default ${default})."`

	AccessTokenTTL settings.Duration `name:"access-token-ttl" default:"10m" placeholder:"TIME" help:"How long an access token lives (default ${default})."`
	CodeTTL        settings.Duration `name:"code-ttl" default:"60s" placeholder:"TIME" help:"How long an authorization code lives (default ${default})."`
	RefreshWindow  settings.Duration `default:"30s" placeholder:"TIME" help:"How long a used refresh token returns the same successor again; 0 for not at all (default ${default})."`
	RefreshIdle    settings.Duration `default:"30d" placeholder:"TIME" help:"How long a grant lives without being refreshed (default ${default})."`
	RefreshMax     settings.Duration `default:"90d" placeholder:"TIME" help:"How long a grant lives at most (default ${default})."`

	consentSettings

	RegistryAt string `placeholder:"PATH" help:"Serve a catalogue of servers too, below this path, such as / or /registry; its settings are under the key registry of the file (default: not)."`

	LogFormat string `default:"text" placeholder:"text|json" help:"How log lines are written (default ${default})."`

	auditSettings
	actSettings

	// Resources is the list resources of the file. There is no flag for it.
	Resources []authz.Resource `kong:"-"`
	// Groups is the mapping groups of the file. There is no flag for it.
	Groups map[string][]string `kong:"-"`
	// Clients and StatementIssuers are the lists clients and software-statements of the file.
	// There are no flags for them.
	Clients          []storage.Client      `kong:"-"`
	StatementIssuers []dcr.StatementIssuer `kong:"-"`
	// Pages is the section pages of the file, the look of the pages.
	Pages pagesSection `kong:"-"`
	// SignIn is the section sign-in of the file. There are no flags for it.
	SignIn signInSettings `kong:"-"`

	// before are the settings of the server that reads them again, nil at the start.
	before *serveSettings
}

func (s *serveSettings) trustedProxies() ([]netip.Prefix, error) { return networks(s.TrustedProxies) }

// networks parses the setting trusted-proxies. An address is a network of one address.
func networks(texts []string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if addr, addrErr := netip.ParseAddr(text); addrErr == nil && addr.Zone() == "" {
			network, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("trusted-proxies %q is not a network: write it like 10.0.0.0/8 or 192.0.2.1", text)
		}
		networks = append(networks, network.Masked())
	}
	return networks, nil
}

// off is the setting that turns a feature off.
const off = "off"

func validAddress(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is not an address: write host:port, for example 127.0.0.1:8080", addr)
	}
	return nil
}

// follow sets the issuer of --dev to the address of the public listener.
func (s *serveSettings) follow(addr string) {
	host, _, _ := net.SplitHostPort(s.Listen)
	_, port, _ := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	issuer := url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}
	if port == "0" { // the listener is not open yet
		issuer.Host = strings.TrimSuffix(issuer.Host, ":0")
	}
	if s.TLSCert != "" || s.orders() {
		issuer.Scheme = "https"
	}
	s.Issuer = issuer.String()
	if canonical, err := metadata.Canonical(s.Issuer); err == nil {
		s.Issuer = canonical
	}
}

// server returns the configuration of the authorization server, without its store.
func (s *serveSettings) server() (authz.Config, error) {
	window := time.Duration(s.RefreshWindow)
	proxies, _ := s.trustedProxies() // mistakes were reported
	fetching, _ := s.fetching()      // mistakes were reported
	fetching.InsecureAllowLoopback, fetching.Observe = s.InsecureAllowLoopback, s.fetched
	fetcher, err := safefetch.New(fetching)
	memories, _ := s.memories() // mistakes were reported
	return authz.Config{
		Issuer:             s.Issuer,
		Resources:          s.Resources,
		Groups:             s.Groups,
		Registration:       authz.Registration(s.Registration),
		RegistrationPolicy: s.registrationPolicy(),
		RegistrationQuota:  cmp.Or(s.RegistrationQuota, -1), // zero is the default of authz.Config
		Limits:             s.limits(),
		StatementIssuers:   s.StatementIssuers,
		ClientUnused:       time.Duration(s.ClientUnused),
		ClientIdle:         time.Duration(s.ClientIdle),
		Clients:            s.Clients,
		AssertionAudience:  authz.AssertionAudience(s.AssertionAudience),
		Documents:          s.documents(),
		Fetcher:            fetcher,
		Egress:             authz.EgressCheck{Hosts: s.egressHosts()},
		SigningAlgorithm:   s.SigningAlgorithm,
		KeyRotation:        cmp.Or(time.Duration(s.KeyRotation), -1), // zero is the default of authz.Config
		KeyCache:           time.Duration(s.KeyCache),
		AccessTokenTTL:     time.Duration(s.AccessTokenTTL),
		CodeTTL:            time.Duration(s.CodeTTL),
		RefreshWindow:      cmp.Or(window, -1), // zero is the default of authz.Config
		RefreshIdle:        time.Duration(s.RefreshIdle),
		RefreshMax:         time.Duration(s.RefreshMax),
		TrustedProxies:     proxies,
		Pages:              s.Pages.look,
		SessionIdle:        time.Duration(s.SessionIdle),
		SessionMax:         time.Duration(s.SessionMax),
		ConsentRemember:    memories,
		PreApproved:        s.PreApproved,

		InsecureRememberUnvouched: s.InsecureRememberUnvouched,
		Providers:                 s.SignIn.Providers,
		NoPasswords:               s.SignIn.NoPasswords,
		RecheckGrace:              time.Duration(s.SignIn.RecheckGrace),
		ProviderProxy:             s.client().Transport.(*http.Transport).Proxy,
		InsecureProviders:         s.Dev,
	}, err
}

func (s *serveSettings) registrationPolicy() dcr.Policy {
	return dcr.Policy{
		RefusePrivateUse:  slices.Contains(s.RegistrationRefuse, "private-use"),
		PrivateUseSchemes: s.RegistrationSchemes,
		RefuseLoopback:    slices.Contains(s.RegistrationRefuse, "loopback"),
		RedirectHosts:     s.RegistrationRedirectHosts,
		Scopes:            s.RegistrationScopes,
		GrantTypes:        s.RegistrationGrantTypes,
	}
}

func (s *serveSettings) documents() dcr.Documents {
	if trust := dcr.Trust(s.ClientDocuments); trust != dcr.TrustAsk && trust != dcr.TrustAllow && trust != dcr.TrustDeny {
		return dcr.Documents{}
	}
	return dcr.Documents{
		Trust: dcr.Trust(s.ClientDocuments), Allow: s.ClientDocumentsAllow, Deny: s.ClientDocumentsDeny, Pinned: s.pinned,
		InsecureAllowLoopback: s.InsecureAllowLoopback,
	}
}
