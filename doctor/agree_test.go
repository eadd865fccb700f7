package doctor_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"gatehouse.example/doctor"
)

// errArrived says that a client comes to the sign-in.
var errArrived = errors.New("the browser would open")

// goClient plays the official Go SDK itself against the servers of a description, and returns
// errArrived if it comes to the sign-in.
func goClient(t *testing.T, s *stable) error {
	t.Helper()
	const redirect = "http://127.0.0.1:8976/callback"
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		RedirectURL: redirect,
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{
			Metadata: &oauthex.ClientRegistrationMetadata{RedirectURIs: []string{redirect}, ClientName: "notes-cli"},
		},
		AuthorizationCodeFetcher: func(context.Context, *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			return nil, errArrived
		},
		Client: &http.Client{Transport: s},
	})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequest(http.MethodPost, s.target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusForbidden {
		return errors.New(answer.Status) // the transport asks for a sign-in at these two only
	}
	return handler.Authorize(context.Background(), request, answer)
}

// agreeing returns the animals at which clients are compared with their profiles, and a healthy
// server. Clients look names up before they follow a redirect, which these names do not survive.
func agreeing() (all []animal) {
	redirects := []string{"resource-metadata-redirected", "server-metadata-redirected", "metadata-redirected-away", "target-moved", "target-moved-get"}
	unknown := []string{"rate-limited", "open-at-first"} // what a client does then is not judged
	for _, a := range zoo() {
		if !slices.Contains(redirects, a.id) && !slices.Contains(unknown, a.id) {
			all = append(all, a)
		}
	}
	return append(all, animal{name: "healthy", change: func(*stable) {}})
}

// compareWay compares how far a client came with its profile, as far as that goes: registrations of
// servers without metadata are not tried.
func compareWay(t *testing.T, a animal, s *stable, client string, arrived bool, why any) {
	t.Helper()
	for _, way := range examined(t, s).As {
		if at := slices.IndexFunc(way.Steps, func(s doctor.Step) bool { return s.Open }); at >= 0 && way.Open != "" && way.Steps[at].Name != "registration" {
			continue
		}
		if way.Client == client && arrived != comes(way) {
			t.Errorf("%s: the profile stops at %q (%s), the client says: %.200v", a.name, way.Stops, way.Finding, why)
		}
	}
}

// comes reports whether a way comes to the sign-in.
func comes(way doctor.Way) bool {
	return way.Stops == "" || slices.Contains([]string{"authorization", "token", "first call", "refresh"}, way.Stops)
}

// TestGoSDKAgrees plays the official Go SDK and its profile against every animal: where one
// stops, so does the other.
func TestGoSDKAgrees(t *testing.T) {
	stopped := 0
	for _, a := range agreeing() {
		s := healthy(notes, issuer)
		a.change(s)
		s.open()
		err := goClient(t, s)
		if !errors.Is(err, errArrived) {
			stopped++
		}
		s = healthy(notes, issuer)
		a.change(s)
		compareWay(t, a, s, "go-sdk", errors.Is(err, errArrived), err)
	}
	if stopped < 10 {
		t.Errorf("stopped at %d animals", stopped)
	}
}
