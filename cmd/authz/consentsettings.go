package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goccy/go-yaml"

	"gatehouse.example/authz"
	"gatehouse.example/cmd/authz/internal/settings"
)

// consentSettings are the settings about how long sign-ins and decisions of people last.
type consentSettings struct {
	SessionIdle               settings.Duration `default:"2h" placeholder:"TIME" help:"How long a person stays signed in without using this server (default ${default})."`
	SessionMax                settings.Duration `default:"12h" placeholder:"TIME" help:"How long a person stays signed in at most (default ${default})."`
	ConsentRemember           []string          `default:"1d,30d,always" placeholder:"TIME|always|off" help:"For how long people may have a decision about an application remembered, as choices on the page: hours or days, or always; repeatable; off asks each time (default ${default})."`
	InsecureRememberUnvouched bool              `help:"Remember decisions also for applications on people's devices that nobody vouches for: any program on the device can then use them without a page, RFC 8252 section 8.6."`

	// PreApproved is the list pre-approved of the file. There is no flag for it.
	PreApproved []authz.PreApproval `kong:"-"`
}

// always is the value of consent-remember for decisions without an end.
const always = "always"

// memories parses consent-remember. It is never nil: nil is the default of authz.Config.
func (s *consentSettings) memories() ([]time.Duration, error) {
	list := []time.Duration{}
	for _, text := range s.ConsentRemember {
		var d settings.Duration
		switch {
		case text == off && len(s.ConsentRemember) > 1:
			return nil, errors.New("consent-remember is off and something else: write off alone")
		case text == off:
			return list, nil
		case text == always:
			list = append(list, authz.RememberAlways)
		case d.UnmarshalText([]byte(text)) != nil:
			return nil, fmt.Errorf("consent-remember %q is not a time: write hours or days, such as 12h or 30d, or always, or off", text)
		default:
			list = append(list, time.Duration(d))
		}
	}
	return list, nil
}

// mistakes returns an error for each value that is malformed.
func (s *consentSettings) mistakes() error {
	_, err := s.memories()
	errs := []error{err}
	for _, life := range []struct {
		name string
		settings.Duration
	}{{"session-idle", s.SessionIdle}, {"session-max", s.SessionMax}} {
		if life.Duration <= 0 {
			errs = append(errs, fmt.Errorf("%s %s is not a time: it must be more than 0", life.name, life.Duration))
		}
	}
	return errors.Join(errs...)
}

// risk returns a warning about a setting that lets other programs use decisions, or "".
func (s *consentSettings) risk() string {
	if !s.InsecureRememberUnvouched || slices.Equal(s.ConsentRemember, []string{off}) {
		return ""
	}
	return "insecure-remember-unvouched: on a device where somebody had a decision remembered, any program can take the place of the application, without a page: " +
		"leave it out, and vouch for the applications that you know with authz client vouch, or under client-documents-allow"
}

// preApprovedIn reads the list pre-approved: what clients may do without asking each person.
func preApprovedIn(d *settings.Document) ([]authz.PreApproval, error) {
	return settings.Listed(d, "pre-approved", preApprovalIn)
}

func preApprovalIn(d *settings.Document, f settings.Field) authz.PreApproval {
	keys := d.Section(f, "an approval", []string{"client-id", "resource", "scopes"})
	var a authz.PreApproval
	for key, value := range keys {
		switch key {
		case "client-id":
			a.ClientID = d.Text(value, key)
		case "resource":
			a.Resource = d.Text(value, key)
		case "scopes":
			a.Scopes = d.Texts(value, key)
		}
	}
	if a.ClientID == "" || a.Resource == "" {
		d.Fail(f.Line, "an approval needs the keys \"client-id\" and \"resource\"")
	}
	return a
}

// describeApprovals returns approvals as a file has them.
func describeApprovals(list []authz.PreApproval) []yaml.MapSlice {
	var out []yaml.MapSlice
	for _, a := range list {
		m := yaml.MapSlice{{Key: "client-id", Value: a.ClientID}, {Key: "resource", Value: a.Resource}}
		if len(a.Scopes) > 0 {
			m = append(m, yaml.MapItem{Key: "scopes", Value: a.Scopes})
		}
		out = append(out, m)
	}
	return out
}
