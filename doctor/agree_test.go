package doctor_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
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

// TestGoSDKAgrees plays the official Go SDK and its profile against every animal: where one
// stops, so does the other.
func TestGoSDKAgrees(t *testing.T) {
	skipped := []string{"resource-metadata-redirected", "server-metadata-redirected", "metadata-redirected-away"} // the client looks names up
	animals := append(zoo(), animal{name: "healthy", change: func(*stable) {}})
	stopped := 0
	for _, a := range animals {
		if slices.Contains(skipped, a.id) {
			continue
		}
		s := healthy(notes, issuer)
		a.change(s)
		report := examined(t, s)
		err := goClient(t, s)
		for _, way := range report.As {
			if way.Client != "go-sdk" {
				continue
			}
			if way.Stops != "" {
				stopped++
			}
			if arrived := errors.Is(err, errArrived); arrived != (way.Stops == "") {
				t.Errorf("%s: the profile stops at %q (%s), the client says: %.200v", a.name, way.Stops, way.Finding, err)
			}
		}
	}
	if stopped < 10 {
		t.Errorf("stopped at %d animals", stopped)
	}
	t.Logf("%d animals, stopped at %d", len(animals), stopped)
}
