package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/message"
	"gatehouse.example/registry"
)

// ownServersIn reads a list of the operator's own servers, and records every mistake in d.
func ownServersIn(d *settings.Document, f settings.Field) []registry.OwnServer {
	var out []registry.OwnServer
	for _, element := range d.Elements(f, "servers") {
		server := ownServerIn(d, element)
		before := d.Failures()
		if _, err := server.Item(); err != nil && d.Failures() == before {
			d.Fail(element.Line, "%s", ownMistake(err))
		}
		out = append(out, server)
	}
	return out
}

// ownKeys are the keys of one of the operator's own servers.
var ownKeys = []string{"name", "version", "title", "description", "website", "url", "transport", "scopes", "icon", "icons", "status", "status-message", "record"}

func ownServerIn(d *settings.Document, f settings.Field) (s registry.OwnServer) {
	keys := d.Section(f, "a server", ownKeys)
	for key, to := range map[string]*string{
		"name": &s.Name, "version": &s.Version, "title": &s.Title, "description": &s.Description, "website": &s.Website,
		"url": &s.URL, "transport": &s.Transport, "status": (*string)(&s.Status), "status-message": &s.StatusMessage,
	} {
		if value, ok := keys[key]; ok {
			*to = d.Text(value, key)
		}
	}
	if value, ok := keys["record"]; ok {
		s.Record = json.RawMessage(d.Text(value, "record"))
	}
	if value, ok := keys["scopes"]; ok {
		s.Scopes = ownScopes(scopesIn(d, value))
	}
	if value, ok := keys["icon"]; ok {
		s.Icons = append(s.Icons, message.Icon{Src: d.Text(value, "icon")})
	}
	if value, ok := keys["icons"]; ok {
		for _, element := range d.Elements(value, "icons") {
			s.Icons = append(s.Icons, iconIn(d, element))
		}
	}
	return s
}

func iconIn(d *settings.Document, f settings.Field) (i message.Icon) {
	for key, value := range d.Section(f, "an icon", []string{"src", "mime-type", "sizes", "theme"}) {
		switch key {
		case "src":
			i.Src = d.Text(value, key)
		case "mime-type":
			i.MIMEType = d.Text(value, key)
		case "sizes":
			i.Sizes = d.OneOrMore(value, key)
		case "theme":
			i.Theme = d.Text(value, key)
		}
	}
	return i
}

// readServers reads a file of the operator's own servers.
func readServers(name string, data []byte) ([]registry.OwnServer, error) {
	d, err := settings.ReadDocument(name, data, []string{"servers"})
	if err != nil {
		return nil, err
	}
	f, ok := d.Values["servers"]
	if !ok {
		return nil, fmt.Errorf("%s: there is no list servers in it; write [] behind it for none", name)
	}
	servers := ownServersIn(d, f)
	return servers, d.Mistakes()
}

// readMeta returns the content of a file of data about servers as JSON. The file is JSON or
// YAML.
func readMeta(name string, data []byte) (json.RawMessage, error) {
	if strings.EqualFold(filepath.Ext(name), ".json") {
		return data, nil
	}
	return settings.ReadJSON(name, data)
}
