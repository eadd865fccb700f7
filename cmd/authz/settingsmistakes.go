package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"

	"gatehouse.example/authz"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/metadata"
)

// mistakes returns the mistakes that authz.New does not report. The settings that --dev allows
// to be left out have been filled in before.
func (s *serveSettings) mistakes() error {
	return errors.Join(s.issuerMistake(), s.fileMistake(), s.required(), s.tlsMistake(), s.acmeSettings.mistakes(s.TLSCert), s.formMistakes(), s.consentSettings.mistakes(), s.signInMistake())
}

// fileMistake returns an error if the path of a store in a file is malformed.
func (s *serveSettings) fileMistake() error {
	if _, err := s.Store.File(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

func (s *serveSettings) issuerMistake() error {
	switch {
	case s.Issuer == "" && s.Dev:
		return nil // the mistake is in listen, which is reported
	case s.Issuer == "":
		return errors.New("issuer is not set: give the https URL that clients use, for example --issuer https://auth.example.com, or --dev to try things on this machine")
	}
	if err := metadata.ValidIssuer(s.Issuer); err != nil {
		reason := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "metadata: "), "issuer: ")
		return fmt.Errorf("issuer %s cannot be used: %s; set the URL that clients use with --issuer", s.Issuer, strings.TrimPrefix(reason, "metadata: "))
	}
	if strings.HasPrefix(s.Issuer, "http:") && !s.Dev {
		return fmt.Errorf("issuer %s is not https: give the https URL that clients use (with --tls-cert and --tls-key, with --acme-names, or with a proxy in front that ends TLS), or --dev to try things on this machine", s.Issuer)
	}
	return nil
}

// signInMistake returns an error if nobody could ever sign in. With a store in this process no
// command can invite anybody, and the person of --dev has a password only.
func (s *serveSettings) signInMistake() error {
	if s.SignIn.broken || s.Issuer == "" {
		return nil // that is reported
	}
	if s.SignIn.NoPasswords && len(s.SignIn.Providers) == 0 && s.Store.Embedded() {
		return errors.New("nobody could sign in: passwords are off (sign-in.passwords: false), there is no provider, and in this store, which ends with the process, nobody can be invited to make a passkey: " +
			"give a store that other programs reach, list a provider under sign-in.providers, or leave passwords on")
	}
	err := authz.Config{Issuer: s.Issuer, NoPasswords: s.SignIn.NoPasswords, Providers: s.SignIn.Providers}.SignInMistake()
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "authz: "))
	}
	return nil
}

// required returns an error for each required setting that is missing. The store has a default.
func (s *serveSettings) required() error {
	var errs []error
	missing := func(absent bool, sentence string) {
		if absent {
			errs = append(errs, errors.New(sentence))
		}
	}
	missing(len(s.MasterKeys) == 0 && !s.Dev, "master-keys is not set: make a key with openssl rand -base64 32 and give it as AUTHZ_MASTER_KEYS, or the file that holds it as AUTHZ_MASTER_KEYS_FILE")
	missing(len(s.MasterKeys) == 0 && s.Dev && !s.Store.Embedded(), "master-keys is not set: the key that --dev makes up is lost at exit, and the records in this store could not be opened without it; give AUTHZ_MASTER_KEYS, or leave out --store")
	missing(s.Registration == "", "registration is not set: choose who may register clients, registration: open, token or closed")
	missing(len(s.Resources) == 0 && s.Store.Embedded(), "resources is not set: list the servers that tokens are for under resources: in the file that --config names")
	if !s.Dev {
		errs = append(errs, s.MasterKeys.Mistakes())
	}
	return errors.Join(errs...)
}

func (s *serveSettings) tlsMistake() error { return tlsMistake(s.TLSCert, s.TLSKey) }

func tlsMistake(cert, key string) error {
	switch {
	case cert != "" && key == "":
		return errors.New("tls-cert is set and tls-key is not: TLS needs both")
	case cert == "" && key != "":
		return errors.New("tls-key is set and tls-cert is not: TLS needs both")
	}
	return nil
}

// formMistakes returns an error for each value that is malformed or out of range.
func (s *serveSettings) formMistakes() error {
	var errs []error
	if err := validAddress(s.Listen); err != nil {
		errs = append(errs, fmt.Errorf("listen %w", err))
	}
	if err := validAddress(s.AdminListen); err != nil && s.AdminListen != off {
		errs = append(errs, fmt.Errorf("admin-listen %w, or off", err))
	}
	errs = append(errs, collision(s.Listen, s.AdminListen, s.ACMEHTTPListen), s.boundMistakes(), logFormatMistake(s.LogFormat), recordsMistake(s.Records), s.auditMistakes(), s.actMistake(s.Audit))
	if _, err := s.trustedProxies(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, s.clientMistakes(), s.egressMistakes())
	for _, life := range []struct {
		name string
		settings.Duration
	}{{"client-unused", s.ClientUnused}, {"client-idle", s.ClientIdle}, {"key-cache", s.KeyCache}, {"access-token-ttl", s.AccessTokenTTL}, {"code-ttl", s.CodeTTL}, {"refresh-idle", s.RefreshIdle}, {"refresh-max", s.RefreshMax}} {
		if life.Duration <= 0 {
			errs = append(errs, fmt.Errorf("%s %s is not a lifetime: it must be more than 0", life.name, life.Duration))
		}
	}
	if s.KeyRotation < 0 {
		errs = append(errs, fmt.Errorf("key-rotation %s is below 0; 0 is for ever", s.KeyRotation))
	}
	if s.RefreshWindow < 0 {
		errs = append(errs, fmt.Errorf("refresh-window %s is below 0; 0 is no window", s.RefreshWindow))
	}
	return errors.Join(errs...)
}

func recordsMistake(records string) error {
	if records != "auto" && records != recordsSealed {
		return fmt.Errorf("records %q is not known: it is auto or sealed", records)
	}
	return nil
}

func logFormatMistake(format string) error {
	if format != "text" && format != "json" {
		return fmt.Errorf("log-format %q is not known: it is text or json", format)
	}
	return nil
}

// clientMistakes returns an error for each setting about clients that is malformed or
// contradicts another.
func (s *serveSettings) clientMistakes() error {
	var errs []error
	for _, kind := range s.RegistrationRefuse {
		if kind != "loopback" && kind != "private-use" {
			errs = append(errs, fmt.Errorf("registration-refuse %q is not a kind of redirect URI: it is loopback or private-use", kind))
		}
	}
	errs = append(errs, s.limitMistakes())
	if s.RegistrationQuota < 0 || s.RegistrationQuota > math.MaxInt32 {
		errs = append(errs, fmt.Errorf("registration-quota %d is not a number of clients up to %d; 0 is any number", s.RegistrationQuota, math.MaxInt32))
	}
	if !slices.Contains([]string{"ask", "allow", "deny", off}, s.ClientDocuments) {
		errs = append(errs, fmt.Errorf("client-documents %q is not known: it is ask, allow, deny or off", s.ClientDocuments))
	}
	if s.ClientDocuments == off && len(s.ClientDocumentsAllow)+len(s.ClientDocumentsDeny) > 0 {
		errs = append(errs, errors.New("client-documents is off: leave out client-documents-allow and client-documents-deny, or write ask, allow or deny"))
	}
	switch host, _, _ := net.SplitHostPort(s.Listen); {
	case !s.InsecureAllowLoopback:
	case !s.Dev:
		errs = append(errs, errors.New("insecure-allow-loopback needs --dev: it allows any client to make this server fetch from its own machine"))
	case !metadata.IsLoopbackHost(host):
		errs = append(errs, fmt.Errorf("insecure-allow-loopback needs a listener on loopback: any client that reaches %s could make this server fetch from its own machine", s.Listen))
	}
	return errors.Join(errs...)
}
