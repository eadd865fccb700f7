package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// compose is the part of docker-compose.yaml that concerns this program.
type compose struct {
	Services map[string]struct {
		Command     []string
		Environment map[string]string
		Ports       []string
		NetworkMode string `yaml:"network_mode"`
	}
}

func readCompose(t *testing.T) compose {
	t.Helper()
	data, err := os.ReadFile("../../docker-compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// The server in docker-compose.yaml has a configuration that this program accepts.
func TestComposeConfiguration(t *testing.T) {
	service := readCompose(t).Services["authz"]
	if !slices.Equal(service.Command, []string{"serve"}) {
		t.Errorf("command %q", service.Command)
	}
	dir := t.TempDir()
	write(t, dir, "master-keys", testKey(1)+"\n")
	var environ []string
	for name, value := range service.Environment {
		if strings.HasPrefix(value, "${") {
			value = ""
		}
		if name == "AUTHZ_MASTER_KEYS_FILE" {
			value = dir + "/master-keys"
		}
		environ = append(environ, name+"="+value)
		if name != strings.ToUpper(name) || !strings.HasPrefix(name, prefix) {
			t.Errorf("%s is not a setting", name)
		}
	}
	var out, complaints bytes.Buffer
	if status := run(t.Context(), []string{"check-config"}, environ, nil, &out, &complaints); status != 0 || strings.Count(complaints.String(), "\n") != 1 || !strings.Contains(complaints.String(), "warning: store redis:6379: without TLS") {
		t.Errorf("exit status %d:\n%s", status, complaints.String()) // that network has nobody else in it
	}
}

// Browser, demo and server know the server by one name, and nothing is published
// beyond this machine.
func TestComposeNames(t *testing.T) {
	c := readCompose(t)
	authz, demo := c.Services["authz"], c.Services["demo"]
	if demo.NetworkMode != "service:authz" {
		t.Errorf("the demo's network_mode is %q", demo.NetworkMode)
	}
	if demo.Environment["DEMO_ISSUER"] != authz.Environment["AUTHZ_ISSUER"] {
		t.Errorf("issuers %q and %q", demo.Environment["DEMO_ISSUER"], authz.Environment["AUTHZ_ISSUER"])
	}
	if demo.Environment["DEMO_RESOURCE"] != demoResource {
		t.Errorf("the demo is %q, the server issues tokens for %q", demo.Environment["DEMO_RESOURCE"], demoResource)
	}
	if len(authz.Ports) != 2 || len(demo.Ports) != 0 || len(c.Services["redis"].Ports) != 0 {
		t.Errorf("ports %q, %q, %q", authz.Ports, demo.Ports, c.Services["redis"].Ports)
	}
	for _, port := range authz.Ports {
		if !strings.HasPrefix(port, "127.0.0.1:") {
			t.Errorf("port %s is published to other machines", port)
		}
	}
}
