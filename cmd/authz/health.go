package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// healthVerb checks that a server on this machine answers, for the health checks of containers
// without a shell.
type healthVerb struct {
	URL string `arg:"" optional:"" default:"http://127.0.0.1:8080/healthz" help:"The URL to request: /healthz of the public listener, or /readyz of the admin listener (default ${default})."`
}

// healthTime is the time within which a server must answer.
const healthTime = 2 * time.Second

// Run fails unless the answer is 200.
func (v *healthVerb) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.URL, nil)
	if err != nil || req.URL.Host == "" || req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return usageError{fmt.Errorf("%q is not a URL: write it like http://127.0.0.1:8080/healthz", v.URL)}
	}
	resp, err := (&http.Transport{}).RoundTrip(req) // no proxy, no redirect
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s does not answer within %s", v.URL, healthTime)
	case err != nil:
		return fmt.Errorf("%s does not answer: %w", v.URL, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", v.URL, resp.Status)
	}
	return nil
}
