package upstream

import (
	"context"
	"net"
)

// Dial replaces the network under a client.
func (c *Client) Dial(dial func(context.Context) (net.Conn, error)) {
	c.dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
}

// Hurry takes out the pause between two fetches of metadata or keys.
func (c *Client) Hurry() { c.document.pause, c.keys.pause = 0, 0 }

// Idle closes the connections that nobody uses.
func (c *Client) Idle() { c.transport.CloseIdleConnections() }
