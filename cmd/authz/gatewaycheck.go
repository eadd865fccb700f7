package main

import (
	"errors"
	"fmt"
	"strings"

	"gatehouse.example/gateway"
	"gatehouse.example/metadata"
)

// mistakes returns the mistakes in the settings that gateway.New does not report.
func (s *gatewaySettings) mistakes() error {
	return errors.Join(s.required(), s.resourceMistake(), s.issuerMistakes(), s.sharedMistakes())
}

// sharedMistakes returns the mistakes in settings that do not belong to one resource.
func (s *gatewaySettings) sharedMistakes() error {
	return errors.Join(tlsMistake(s.TLSCert, s.TLSKey), s.acmeMistakes(), s.formMistakes())
}

// required returns an error for each setting that is missing, and for settings that exclude each
// other.
func (s *gatewaySettings) required() error {
	var errs []error
	mistake := func(is bool, sentence string) {
		if is {
			errs = append(errs, errors.New(sentence))
		}
	}
	mistake(s.Resource == "", "resource is not set: give the URL that clients dial, for example --resource https://notes.example.com/mcp")
	mistake(s.Upstream == "" && !s.VerifyOnly, "upstream is not set: give the URL of the server to guard, for example --upstream http://127.0.0.1:9000/mcp, or --verify-only to forward nothing")
	mistake(s.Upstream != "" && s.VerifyOnly, "upstream is set, and verify-only forwards nothing: leave out one of them")
	mistake(len(s.Issuer) == 0, "issuer is not set: give the authorization server whose tokens are accepted, for example --issuer https://auth.example.com")
	return errors.Join(errs...)
}

func (s *gatewaySettings) resourceMistake() error {
	if err := metadata.ValidResource(s.Resource); err != nil && s.Resource != "" {
		return fmt.Errorf("resource %s cannot be used: %s", s.Resource, withoutPackage(err))
	}
	return nil
}

func (s *gatewaySettings) issuerMistakes() error {
	var errs []error
	for _, issuer := range s.Issuer {
		if err := metadata.ValidIssuer(issuer); err != nil {
			errs = append(errs, fmt.Errorf("issuer %s cannot be used: %s", issuer, withoutPackage(err)))
		}
	}
	if s.IntrospectionSecret != "" && len(s.Issuer) > 1 {
		errs = append(errs, errors.New("introspection-secret is for one issuer: with several, it would be sent to each of them"))
	}
	return errors.Join(errs...)
}

// withoutPackage returns the text of an error of package metadata without its prefixes.
func withoutPackage(err error) string {
	reason := strings.TrimPrefix(err.Error(), "metadata: ")
	for _, name := range []string{"issuer: ", "resource: ", "metadata: "} {
		reason = strings.TrimPrefix(reason, name)
	}
	return reason
}

// formMistakes returns an error for each value that is malformed.
func (s *gatewaySettings) formMistakes() error {
	var errs []error
	if err := validAddress(s.Listen); err != nil {
		errs = append(errs, fmt.Errorf("listen %w", err))
	}
	if err := validAddress(s.AdminListen); err != nil && s.AdminListen != off {
		errs = append(errs, fmt.Errorf("admin-listen %w, or off", err))
	}
	switch gateway.Identity(s.Identity) {
	case gateway.IdentityHeaders, gateway.IdentityAssertion, gateway.IdentityNone:
	default:
		errs = append(errs, fmt.Errorf("identity %q is not known: it is headers, assertion or none", s.Identity))
	}
	if s.MaxBody <= 0 {
		errs = append(errs, fmt.Errorf("max-body %d is not a size: it must be more than 0", s.MaxBody))
	}
	errs = append(errs, maxTokenMistake(s.MaxToken))
	if s.StaleKeys < 0 {
		errs = append(errs, fmt.Errorf("stale-keys %s is below 0", s.StaleKeys))
	}
	_, err := networks(s.TrustedProxies)
	return errors.Join(append(errs, collision(s.Listen, s.AdminListen, s.ACMEHTTPListen), s.boundMistakes(), logFormatMistake(s.LogFormat), s.auditMistakes(), s.auditKeyMistake(), err)...)
}
