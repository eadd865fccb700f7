package upstream

import (
	"context"
	"net"
	"net/http"
)

// Dial replaces the network under a client.
func (c *Client) Dial(dial func(context.Context) (net.Conn, error)) {
	c.transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
}

// Hurry takes out the pause between two fetches of metadata or keys.
func (c *Client) Hurry() { c.document.pause, c.keys.pause = 0, 0 }
