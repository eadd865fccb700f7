package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"gatehouse.example/authz/admin"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/storage"
)

// userVerbs administer the people who can sign in. A running server sees a change at once.
type userVerbs struct {
	Add     userAdd     `cmd:"" help:"Add a person; the password is read from standard input."`
	Ls      userLs      `cmd:"" help:"List all people."`
	Show    userShow    `cmd:"" help:"Print how a person signs in, their groups, and their sessions and grants."`
	Passwd  userPasswd  `cmd:"" help:"Set another password for a person, read from standard input, and end their sessions."`
	Invite  userInvite  `cmd:"" help:"Add a person without a password, and print a one-time link with which they choose how to sign in."`
	Reset   userReset   `cmd:"" help:"End the password and the sessions of a person, and print a one-time link with which they choose again."`
	Disable userDisable `cmd:"" help:"Lock a person out and revoke their grants."`
	Rm      userRm      `cmd:"" help:"Remove a person and revoke their grants."`
}

type userAdd struct {
	storeSettings
	Name         string `arg:"" help:"The name that the person types to sign in."`
	PasswordFile string `placeholder:"FILE" help:"File that contains the password, instead of standard input."`
	JSON         bool   `name:"json" help:"Print the record as JSON."`
}

// Run adds a person.
func (v *userAdd) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	password, err := p.password(v.PasswordFile)
	if err != nil {
		return err
	}
	user, err := admin.AddUser(ctx, store, v.Name, password)
	switch {
	case errors.Is(err, storage.ErrConflict):
		return fmt.Errorf("there is already a person with the name %s: authz user passwd sets another password for them", v.Name)
	case err != nil:
		return err
	case v.JSON:
		return p.printJSON(admin.UserOf(user))
	}
	_, err = fmt.Fprintf(p.stdout, "added %s, subject %s\n", user.Name, user.Subject)
	return err
}

type userLs struct {
	storeSettings
	JSON bool `name:"json" help:"Print the records as a JSON array."`
}

// Run lists all people.
func (v *userLs) Run(ctx context.Context, p *program, k *kong.Context) error {
	store, err := p.storeOf(ctx, k, &v.storeSettings)
	if err != nil {
		return err
	}
	defer store.Close()
	list := newRecordList(p.stdout, v.JSON, userHead, userLine)
	damaged := &unreadable{kind: "user"}
	for u, err := range admin.Users(ctx, store) {
		if err == nil {
			err = list.print(u)
		}
		if err = damaged.without(err); err != nil {
			return errors.Join(err, list.end(false))
		}
	}
	return errors.Join(list.end(true), damaged.error())
}

const userHead = "NAME\tSTATE\tCREATED\tSUBJECT\tSIGNS IN WITH\tGROUPS"

func userLine(r admin.User) string {
	with := make([]string, len(r.Identities))
	for i, identity := range r.Identities {
		with[i] = identity.Provider + ":" + identity.Handle
	}
	return strings.Join([]string{wordOf(r.Name), userState(r), moment(r.Created.UTC()), wordOf(r.Subject), wordsOf(with), groupWords(r, groupsInLine)}, "\t")
}

func userState(r admin.User) string {
	switch {
	case r.Disabled:
		return "disabled"
	case r.Invited:
		return "invited"
	}
	return "active"
}

// groupsInLine is how many groups of a person stand in a line of a list.
const groupsInLine = 8

// groupWords returns the groups of a person, the own ones first, and how many are left out.
func groupWords(r admin.User, most int) string {
	names := slices.Clone(r.Groups)
	for _, i := range r.Identities {
		for _, group := range i.Groups {
			names = append(names, i.Provider+"/"+group)
		}
	}
	if len(names) <= most {
		return wordsOf(names)
	}
	return fmt.Sprintf("%s and %d more", wordsOf(names[:most]), len(names)-most)
}

type userDisable struct {
	storeSettings
	Name string `arg:"" help:"The name of the person."`
}

// Run locks a person out.
func (v *userDisable) Run(ctx context.Context, p *program, k *kong.Context) error {
	return p.changeUser(ctx, k, &v.storeSettings, v.Name, "disabled", admin.DisableUser)
}

type userPasswd struct {
	storeSettings
	Name         string `arg:"" help:"The name of the person."`
	PasswordFile string `placeholder:"FILE" help:"File that contains the password, instead of standard input."`
}

// Run sets another password for a person.
func (v *userPasswd) Run(ctx context.Context, p *program, k *kong.Context) error {
	return p.changeUser(ctx, k, &v.storeSettings, v.Name, "changed the password of", func(ctx context.Context, store *storage.Store, name string) error {
		if _, err := admin.FindUser(ctx, store, name); err != nil {
			return err
		}
		password, err := p.password(v.PasswordFile)
		if err != nil {
			return err
		}
		return admin.SetPassword(ctx, store, name, password)
	})
}

type userRm struct {
	storeSettings
	Name string `arg:"" help:"The name of the person."`
}

// Run removes a person.
func (v *userRm) Run(ctx context.Context, p *program, k *kong.Context) error {
	return p.changeUser(ctx, k, &v.storeSettings, v.Name, "removed", admin.RemoveUser)
}

// changeUser applies change to one person and prints done with the name.
func (p *program) changeUser(ctx context.Context, k *kong.Context, s *storeSettings, name, done string,
	change func(context.Context, *storage.Store, string) error) error {
	store, err := p.storeOf(ctx, k, s)
	if err != nil {
		return err
	}
	defer store.Close()
	err = change(ctx, store, name)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return noPerson(name)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%s %s\n", done, name)
	return err
}

// noPerson is the error for a person that there is not.
func noPerson(name string) error {
	return fmt.Errorf("there is no person with the name %s: authz user ls lists them", wordOf(name))
}

// storeOf sets the settings of a verb and opens the store that they name.
func (p *program) storeOf(ctx context.Context, k *kong.Context, s *storeSettings) (*storage.Store, error) {
	if _, err := p.loadStore(k); err != nil {
		return nil, err
	}
	return s.open(ctx, p)
}

func (p *program) printJSON(v any) error {
	encoder := json.NewEncoder(inertWriter{p.stdout})
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// maxPasswordInput is the largest password that is read, in bytes.
const maxPasswordInput = 4096

// password reads a new password: from the file if one is named, from the terminal if standard
// input is one, else from the only line of standard input.
func (p *program) password(file string) (string, error) {
	if file != "" {
		text, err := settings.SecretFrom(file)
		if err != nil {
			return "", fmt.Errorf("password-file: %w", err)
		}
		return onePassword(text)
	}
	if f, ok := p.stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return p.askPassword(int(f.Fd()))
	}
	data, err := io.ReadAll(io.LimitReader(p.stdin, maxPasswordInput+1))
	if err != nil {
		return "", fmt.Errorf("password: %w", err)
	}
	return onePassword(strings.TrimRight(string(data), "\r\n"))
}

// onePassword returns text if it may be chosen as a password.
func onePassword(text string) (string, error) {
	switch {
	case text == "":
		return "", errors.New("password: standard input is empty: type it, pipe it in, or name a file with --password-file")
	case len(text) > maxPasswordInput || strings.ContainsAny(text, "\r\n\x00"):
		return "", errors.New("password: it must be one line")
	}
	return text, admin.CheckPassword(text)
}

// askPassword asks for the password twice, without showing it.
func (p *program) askPassword(terminal int) (string, error) {
	var answers [2]string
	for i, prompt := range []string{"Password: ", "Again: "} {
		fmt.Fprint(p.stderr, prompt)
		answer, err := term.ReadPassword(terminal)
		fmt.Fprintln(p.stderr)
		if err != nil {
			return "", fmt.Errorf("password: %w", err)
		}
		answers[i] = string(answer)
	}
	if answers[0] != answers[1] {
		return "", errors.New("password: the two answers differ")
	}
	return onePassword(answers[0])
}
