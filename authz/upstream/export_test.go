package upstream

import (
	"context"
	"net"
	"net/http"
)

// Dial replaces the network under a client.
func (c *Client) Dial(dial func(context.Context) (net.Conn, error)) {
	c.dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
}

// Hurry takes out the pause between two fetches of metadata or keys.
func (c *Client) Hurry() { c.document.pause, c.keys.pause = 0, 0 }

// Idle closes the connections that nobody uses.
func (c *Client) Idle() { c.transport.CloseIdleConnections() }

// Answer lets a function take the place of the network, for addresses with http.
func (c *Client) Answer(answer func(*http.Request) *http.Response) {
	c.transport.RegisterProtocol("http", roundTripper(answer))
}

type roundTripper func(*http.Request) *http.Response

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// GitHubAPI returns where the API of a GitHub is.
func GitHubAPI(issuer string) string { return githubAPI(issuer) }

// UsableKeys returns the public keys of the provider that may sign.
func (c *Client) UsableKeys(ctx context.Context) (keys []any, err error) {
	list, _, err := c.keys.get(ctx)
	for _, k := range list {
		keys = append(keys, k.Key)
	}
	return keys, err
}

// Patient is how many logout tokens wait for new keys.
func (c *Client) Patient() int { return len(c.patient) }

// Address and Code return an e-mail address in the form in which it is compared, and the code of an
// error, empty if there is none; Plain and Shown are for text of others.
func Address(s string) string        { whole, _, _ := address(s); return whole }
func Code(s string) string           { return code(s) }
func Plain(s string, max int) bool   { return plain(s, max) }
func Shown(s string, max int) string { return shown(s, max) }
