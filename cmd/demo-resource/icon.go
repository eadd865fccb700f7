package main

import (
	"embed"
	"encoding/base64"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// pictures has the icons of the server and of each tool, all of the same size.
//
//go:embed icons/*.png
var pictures embed.FS

// iconsOf returns the icon with a name as a data URL, so that clients need not fetch it. It
// returns nil if there is none.
func iconsOf(name string) []mcp.Icon {
	picture, err := pictures.ReadFile("icons/" + name + ".png")
	if err != nil {
		return nil // icons are optional
	}
	return []mcp.Icon{{
		Source: "data:image/png;base64," + base64.StdEncoding.EncodeToString(picture), MIMEType: "image/png", Sizes: []string{"48x48"},
	}}
}
