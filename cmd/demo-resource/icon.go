package main

import (
	"embed"
	"encoding/base64"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// pictures are one of the server and one of each tool, all of the same size.
//
//go:embed icons/*.png
var pictures embed.FS

// iconsOf returns the icon with a name. It is part of the message: a client need not fetch
// anything from anywhere to show it.
func iconsOf(name string) []mcp.Icon {
	picture, err := pictures.ReadFile("icons/" + name + ".png")
	if err != nil {
		return nil // nobody needs a picture
	}
	return []mcp.Icon{{
		Source: "data:image/png;base64," + base64.StdEncoding.EncodeToString(picture), MIMEType: "image/png", Sizes: []string{"48x48"},
	}}
}
