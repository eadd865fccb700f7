package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"gatehouse.example/gateway"
)

// TestPageNamesTheRecipes: the page names each file, and each file that it names exists.
func TestPageNamesTheRecipes(t *testing.T) {
	page, err := os.ReadFile("../../docs/proxies.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../docs/recipes/*")
	if err != nil || len(files) != 7 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		if name := filepath.Base(file); !strings.Contains(string(page), "("+"recipes/"+name+")") {
			t.Errorf("docs/proxies.md does not name %s", name)
		}
	}
	if n := strings.Count(string(page), "](recipes/"); n != len(files) {
		t.Errorf("the page names %d recipes, and there are %d", n, len(files))
	}
}

// traefik is a file for the file provider of Traefik, as far as a recipe has such members.
type traefik struct {
	HTTP struct {
		Routers map[string]struct {
			Rule, Service string
			Priority      int
			Middlewares   []string
		}
		Middlewares map[string]struct {
			ReplacePath struct{ Path string } `yaml:"replacePath"`
			ForwardAuth struct {
				Address             string
				TrustForwardHeader  bool     `yaml:"trustForwardHeader"`
				AuthRequestHeaders  []string `yaml:"authRequestHeaders"`
				AuthResponseHeaders []string `yaml:"authResponseHeaders"`
			} `yaml:"forwardAuth"`
			Headers struct {
				CustomRequestHeaders map[string]string `yaml:"customRequestHeaders"`
			}
		}
		Services map[string]struct {
			LoadBalancer struct {
				ResponseForwarding struct {
					FlushInterval string `yaml:"flushInterval"`
				} `yaml:"responseForwarding"`
				Servers []struct{ URL string }
			} `yaml:"loadBalancer"`
		}
	}
}

func readTraefik(t *testing.T, name string) traefik {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs/recipes", name))
	if err != nil {
		t.Fatal(err)
	}
	var file traefik
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return file
}

// TestRecipesForTraefik checks paths, order and names; the recipes are not run.
func TestRecipesForTraefik(t *testing.T) {
	for name, order := range map[string][]string{"traefik-gateway.yaml": {"one-path"}, "traefik-verify.yaml": {"one-path", "verify", "made-up"}} {
		file := readTraefik(t, name)
		for router, r := range file.HTTP.Routers {
			if strings.Contains(r.Rule, "Prefix") || strings.Contains(r.Rule, "PathRegexp") || !strings.Contains(r.Rule, "Path(`/") || !strings.Contains(r.Rule, "Host(`notes.example.com`)") {
				t.Errorf("%s: %s is for more than one path: %s", name, router, r.Rule)
			}
			if _, ok := file.HTTP.Services[r.Service]; !ok {
				t.Errorf("%s: %s goes to %s, which is not there", name, router, r.Service)
			}
		}
		notes := file.HTTP.Routers["notes"]
		if !slices.Equal(notes.Middlewares, order) || !strings.Contains(notes.Rule, "!QueryRegexp(`access_token`, `.*`)") || file.HTTP.Middlewares["one-path"].ReplacePath.Path != "/mcp" {
			t.Errorf("%s: %+v", name, notes)
		}
		if file.HTTP.Services[notes.Service].LoadBalancer.ResponseForwarding.FlushInterval != "-1ms" {
			t.Errorf("%s: streams are held back", name)
		}
	}
}

// TestNamesForTraefik: identity headers are named in both spellings.
func TestNamesForTraefik(t *testing.T) {
	file := readTraefik(t, "traefik-verify.yaml")
	verify, dropped := file.HTTP.Middlewares["verify"].ForwardAuth, file.HTTP.Middlewares["made-up"].Headers.CustomRequestHeaders
	identity := []string{gateway.HeaderSubject, gateway.HeaderIssuer, gateway.HeaderClient, gateway.HeaderScope}
	if verify.TrustForwardHeader || !slices.Equal(verify.AuthRequestHeaders, []string{"Authorization"}) || !slices.Equal(verify.AuthResponseHeaders, identity) || !strings.HasSuffix(verify.Address, gateway.PathVerify) {
		t.Errorf("%+v", verify)
	}
	for name, value := range dropped {
		if value != "" || slices.Contains(identity, name) {
			t.Errorf("%s is set to %q", name, value)
		}
		if folded := strings.ReplaceAll(name, "-", "_"); name != "Connection" {
			if _, ok := dropped[folded]; !ok {
				t.Errorf("%s is dropped, and %s is not", name, folded)
			}
		}
	}
	for _, name := range append(identity, "Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "Last-Event-Id", "X-Forwarded-For", "X-Forwarded-Host") {
		if _, ok := dropped[strings.ReplaceAll(name, "-", "_")]; !ok {
			t.Errorf("%s with _ is not dropped", name)
		}
	}
	for _, name := range []string{"Connection", "Authorization", "Cookie", gateway.HeaderAssertion, "X-Original-Url", "X-Rewrite-Url", "X-Http-Method-Override", "Remote-User", "X-Forwarded-User", "X-Api-Key", "Proxy", "X-On-Behalf-Of"} {
		if _, ok := dropped[name]; !ok {
			t.Errorf("%s is not dropped", name)
		}
	}
}
