package message

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Icon is an entry of a property icons.
type Icon struct {
	// Src ("src") is the URL of the image, https or http, or a data: URL with the image in
	// base64. Programs that show icons accept https and data: only (requirement R-ICO-7).
	Src string `json:"src"`
	// MIMEType ("mimeType") is for images whose server sends no media type or a generic one.
	// It is not trusted: the bytes of the image determine its type.
	MIMEType string `json:"mimeType,omitempty"`
	// Sizes ("sizes") are the sizes of the image, such as 48x48, or any for an image that can
	// be scaled.
	Sizes []string `json:"sizes,omitempty"`
	// Theme ("theme") is the theme for which the image is made: light or dark.
	Theme string `json:"theme,omitempty"`
}

var iconSize = regexp.MustCompile(`^([1-9][0-9]{0,4}x[1-9][0-9]{0,4}|any)$`)

// Validate returns an error that joins every member that the protocol does not allow
// (requirements R-ICO-2 and R-ICO-3). It does not check the address in Src or the image itself.
func (i Icon) Validate() error {
	var errs []error
	if err := validSrc(i.Src); err != nil {
		errs = append(errs, err)
	}
	for _, size := range i.Sizes {
		if !iconSize.MatchString(size) {
			errs = append(errs, fmt.Errorf("message: icon: the size %.20q is neither like 48x48 nor any", size))
		}
	}
	if i.Theme != "" && i.Theme != "light" && i.Theme != "dark" {
		errs = append(errs, fmt.Errorf("message: icon: the theme %.20q is neither light nor dark", i.Theme))
	}
	return errors.Join(errs...)
}

// validSrc returns an error unless src is an absolute http or https URL with a host, or an image
// in base64, that all parsers read in the same way: some remove line breaks and blanks, take a
// backslash for a slash, or find a host without slashes before it (URL Standard, section 4.4).
func validSrc(src string) error {
	if src == "" {
		return errors.New("message: icon: src is required")
	}
	if !utf8.ValidString(src) || strings.ContainsFunc(src, notInURL) {
		return fmt.Errorf("message: icon: src %.40q has a character that a URL does not have", src)
	}
	scheme, rest, _ := strings.Cut(src, ":")
	switch strings.ToLower(scheme) {
	case "https", "http":
		return validAddress(src)
	case "data":
		return validData(rest)
	}
	return fmt.Errorf("message: icon: src %.40q must be an https or http URL, or a data: URL with an image in base64", src)
}

// notInURL reports whether c is a character outside of RFC 3986 that is invisible, that parsers
// replace, or that can end an HTML attribute. Letters beyond ASCII are allowed.
func notInURL(c rune) bool {
	return c == ' ' || !unicode.IsPrint(c) || strings.ContainsRune("\"<>\\^`{|}", c)
}

func validAddress(src string) error {
	switch u, err := url.Parse(src); {
	case err != nil || u.Opaque != "" || u.Hostname() == "" || strings.Contains(u.Host, "%"):
		return fmt.Errorf("message: icon: src %.40q is not a URL with a host", src)
	case u.User != nil:
		return errors.New("message: icon: src must have no user name and no password") // not repeated here
	}
	return nil
}

// imageType returns the syntax of a media type. It is compiled at the first call, because it takes a
// part of the start of every program that reads messages.
var imageType = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?i:image)/[A-Za-z0-9][A-Za-z0-9.+-]{0,63}(;[A-Za-z0-9-]{1,32}=[A-Za-z0-9.+-]{1,64})*$`)
})

// validData returns an error unless rest, the part after "data:", is an image in base64 (RFC
// 2397 section 3).
func validData(rest string) error {
	head, text, _ := strings.Cut(rest, ",")
	media, coded := strings.CutSuffix(head, ";base64")
	if !coded || text == "" {
		return errors.New("message: icon: src is a data: URL that does not hold base64")
	}
	if !imageType().MatchString(media) {
		return fmt.Errorf("message: icon: src is a data: URL of the type %.40q, which is not an image type", media)
	}
	if _, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, strings.NewReader(text))); err != nil {
		return errors.New("message: icon: src is a data: URL that does not hold base64")
	}
	return nil
}
