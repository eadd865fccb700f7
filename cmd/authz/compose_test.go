package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/internal/listener"
)

// compose is the part of a compose file that concerns these commands.
type compose struct {
	Services map[string]composeService
	Networks map[string]struct {
		IPAM struct{ Config []struct{ Subnet string } }
	}
	Volumes map[string]any
	Secrets map[string]any
}

type composeService struct {
	Command     []string
	Entrypoint  []string
	Environment map[string]string
	Ports       []string
	Volumes     []string
	Build       any
	NetworkMode string                                `yaml:"network_mode"`
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck struct{ Test []string }
	Restart     string
	Grace       settings.Duration `yaml:"stop_grace_period"`
}

// composeFiles are the names of the compose files.
var composeFiles = []string{"docker-compose.yaml", "docker-compose.tls.yaml", "docker-compose.file.yaml"}

func readCompose(t *testing.T, name string) compose {
	t.Helper()
	data, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// configured returns the environment of a service, with a master key in place of the one in the
// volume.
func (s composeService) configured(t *testing.T) (environ []string) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "master-keys", testKey(1)+"\n")
	for name, value := range s.Environment {
		if strings.HasPrefix(value, "${") {
			value = ""
		}
		if name == "AUTHZ_MASTER_KEYS_FILE" {
			value = dir + "/master-keys"
		}
		environ = append(environ, name+"="+value)
		if name != strings.ToUpper(name) || !strings.HasPrefix(name, settings.Prefix) {
			t.Errorf("%s is not a setting", name)
		}
	}
	return environ
}

// The configuration of the server in docker-compose.yaml is accepted. The only warning is about
// the plain connection to the store, in a network without other users.
func TestComposeConfiguration(t *testing.T) {
	service := readCompose(t, "docker-compose.yaml").Services["authz"]
	if !slices.Equal(service.Command, []string{"serve"}) {
		t.Errorf("command %q", service.Command)
	}
	status, said := check(t, service.configured(t))
	if status != exitDone || strings.Count(said, "\n") != 1 || !strings.Contains(said, "warning: store redis:6379: without TLS") {
		t.Errorf("exit status %d:\n%s", status, said)
	}
}

// The configuration of the servers behind TLS is accepted too, with Redis and with a file. They run
// without --dev and trust only the network of their proxy.
func TestComposeBehindTLS(t *testing.T) {
	for name, doubts := range map[string][]string{
		"docker-compose.tls.yaml":  {"only a proxy that ends TLS may reach it", "warning: store redis:6379: without TLS"},
		"docker-compose.file.yaml": {"only a proxy that ends TLS may reach it"},
	} {
		c := readCompose(t, name)
		service := c.Services["authz"]
		if !slices.Equal(service.Command, []string{"serve", "--config", "/gatehouse.yaml"}) || service.Environment["AUTHZ_DEV"] != "" || len(service.Ports) != 0 {
			t.Errorf("%s: command %q, environment %q, ports %q", name, service.Command, service.Environment, service.Ports)
		}
		status, said := check(t, service.configured(t), "--config", "../../docs/examples/gatehouse.yaml")
		if status != exitDone || strings.Count(said, "\n") != len(doubts) {
			t.Errorf("%s: exit status %d:\n%s", name, status, said)
		}
		for _, doubt := range doubts {
			if !strings.Contains(said, doubt) {
				t.Errorf("%s: it said %q, without %q", name, said, doubt)
			}
		}
		if front := c.Networks["front"].IPAM.Config; len(front) != 1 || front[0].Subnet != service.Environment["AUTHZ_TRUSTED_PROXIES"] {
			t.Errorf("%s: the proxy's network is %v, the server believes %s", name, front, service.Environment["AUTHZ_TRUSTED_PROXIES"])
		}
	}
	caddy, err := os.ReadFile("../../docs/examples/Caddyfile")
	if err != nil || !strings.Contains(string(caddy), "\nauth.example.com {\n\treverse_proxy authz:8080\n}") {
		t.Errorf("the proxy does not lead to the server: %v\n%s", err, caddy)
	}
}

// A fresh clone needs only one command: every file that a service mounts exists, every variable
// has a default, and each service waits until the services that it needs are healthy.
func TestComposeOnAFreshClone(t *testing.T) {
	for _, name := range composeFiles {
		c := readCompose(t, name)
		if len(c.Secrets) != 0 {
			t.Errorf("%s: secrets come from files that are not there: %v", name, c.Secrets)
		}
		for service, s := range c.Services {
			for _, volume := range s.Volumes {
				from, _, _ := strings.Cut(volume, ":")
				if path, ok := strings.CutPrefix(from, "./"); ok {
					if _, err := os.Stat("../../" + path); err != nil {
						t.Errorf("%s: %s: %v", name, service, err)
					}
				} else if _, ok := c.Volumes[from]; !ok {
					t.Errorf("%s: %s: there is no volume %s", name, service, from)
				}
			}
			for other, on := range s.DependsOn {
				want := "service_healthy"
				if other == "key" {
					want = "service_completed_successfully"
				}
				if on.Condition != want {
					t.Errorf("%s: %s waits for %s until %q", name, service, other, on.Condition)
				}
			}
			if (s.Restart == "no") != (len(s.Healthcheck.Test) == 0) {
				t.Errorf("%s: %s runs on without a health check, or has one and ends", name, service)
			}
			if s.Build != nil && time.Duration(s.Grace) < 5*time.Second+listener.Grace {
				t.Errorf("%s: %s is killed after %s, while it stops", name, service, s.Grace)
			}
			for variable, value := range s.Environment {
				if strings.HasPrefix(value, "${") && !strings.Contains(value, ":-") {
					t.Errorf("%s: %s: %s has no default", name, service, variable)
				}
			}
		}
		store, redis := c.Services["redis"]
		if redis && !slices.Contains(store.Command, "--maxmemory") { // without it there is no reserve for those who are known
			t.Errorf("%s: Redis takes all the memory that there is: %q", name, store.Command)
		}
		if on := c.Services["authz"].DependsOn; redis && len(on) != 2 || !redis && len(on) != 1 {
			t.Errorf("%s: authz waits for %v", name, on)
		}
	}
}

// The service that runs once makes a valid master key that only its owner can read, and keeps it
// at the next start.
func TestComposeMakesTheMasterKey(t *testing.T) {
	for _, name := range composeFiles {
		c := readCompose(t, name)
		key, server := c.Services["key"], c.Services["authz"]
		if !slices.Contains(key.Volumes, "keys:/keys") || !slices.Contains(server.Volumes, "keys:/keys:ro") || server.Environment["AUTHZ_MASTER_KEYS_FILE"] != "/keys/master-keys" || key.Restart != "no" {
			t.Errorf("%s: %+v, %+v", name, key, server)
		}
		dir, tools := t.TempDir(), t.TempDir()
		write(t, tools, "chown", "#!/bin/sh\n[ $1 = 65532:65532 ]\n") // only root may give files away
		if err := os.Chmod(tools+"/chown", 0o700); err != nil {
			t.Fatal(err)
		}
		var made []string
		for range 2 {
			script := strings.NewReplacer("/keys/", dir+"/", "/state/", dir+"/state/").Replace(key.Command[0])
			shell := exec.Command(key.Entrypoint[0], append(key.Entrypoint[1:], script)...)
			shell.Env = []string{"PATH=" + tools + ":" + os.Getenv("PATH")}
			if out, err := shell.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, out)
			}
			text, err := settings.SecretFrom(dir + "/master-keys")
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, text)
		}
		var keys settings.MasterKeys
		if err := keys.UnmarshalText([]byte(made[0])); err != nil || len(keys) != 1 || patterned(keys[0]) || made[0] != made[1] {
			t.Errorf("%s: %v, made once: %t", name, err, made[0] == made[1])
		}
		if info, err := os.Stat(dir + "/master-keys"); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
		path, err := settings.StoreURL(server.Environment["AUTHZ_STORE"]).File()
		if err != nil || path == "" {
			continue
		}
		if info, err := os.Stat(dir + filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 || !slices.Contains(key.Volumes, "state:/state") || !slices.Contains(server.Volumes, "state:/state") {
			t.Errorf("%s: the folder of the store: %v, %v; volumes %q", name, info, err, server.Volumes)
		}
	}
}

// The command of each health check exists in its container.
func TestHealthChecks(t *testing.T) {
	for _, name := range composeFiles {
		test := readCompose(t, name).Services["authz"].Healthcheck.Test
		if len(test) != 4 || !slices.Equal(test[:3], []string{"CMD", "/authz", "health"}) {
			t.Errorf("%s: authz is asked by %q", name, test)
		}
	}
	if test := readCompose(t, "docker-compose.yaml").Services["demo"].Healthcheck.Test; !slices.Equal(test, []string{"CMD", "/demo-resource", "--check"}) {
		t.Errorf("the demo is asked by %q", test)
	}
	r := start(t, nil, "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	for url, want := range map[string]int{
		r.shown("issuer") + "/healthz":              exitDone,
		"http://" + r.shown("admin on") + "/readyz": exitDone,
		r.shown("issuer") + "/elsewhere":            exitRefused,
		"http://" + gone.Addr().String():            exitRefused,
		"nowhere at all":                            exitUsage,
		"127.0.0.1:9090":                            exitUsage,
		"localhost:9090/readyz":                     exitUsage,
	} {
		var out, said lockedBuffer
		if status := run(t.Context(), []string{"health", url}, nil, nil, &out, &said); status != want || (said.String() == "") != (want == exitDone) {
			t.Errorf("%s: exit status %d, want %d:\n%s", url, status, want, said.String())
		}
	}
}

// Browser, demo and server use one name for the server, and no port is published beyond this
// machine.
func TestComposeNames(t *testing.T) {
	c := readCompose(t, "docker-compose.yaml")
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
