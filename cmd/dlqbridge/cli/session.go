package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/config"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
	"github.com/dlqbridge/dlqbridge/redrive"
)

// defaultFile is read from the working directory if nothing names another one.
const defaultFile = "dlqbridge.yaml"

// session is what the commands of one call share; each part is made when the
// first command asks for it.
type session struct {
	p      *Program
	stdout *counter
	stderr io.Writer
	meter  *meter         // nil is no progress
	screen *screen.Screen // standard output
	errors *screen.Screen // standard error

	// Global flags.
	configFile, output, logFormat, logLevel, actorNote string

	cfg    *config.Config
	bridge *wire.Bridge
	ended  []func()
}

func (s *session) json() bool { return s.output == "json" }

// print writes the result: the document with -o json, else what text says.
func (s *session) print(document any, text func(*screen.Screen)) error {
	if s.json() {
		return screen.WriteJSON(s.stdout, document)
	}
	text(s.screen)
	return s.stdout.err
}

// printLong is print for a document whose lists may be longer than memory.
func (s *session) printLong(document any, lists *redrive.Long, text func(*screen.Screen) error) error {
	if !s.json() {
		return errors.Join(text(s.screen), s.stdout.err)
	}
	var head bytes.Buffer
	if err := screen.WriteJSON(&head, document); err != nil {
		return err
	}
	out := bufio.NewWriterSize(s.stdout, 1<<16)
	return errors.Join(lists.Write(out, head.Bytes(), screen.LongList), out.Flush())
}

// noFileHint is what to do where no configuration was found.
const noFileHint = "no ./" + defaultFile + " here; give --config or " + config.FileVariable

// withoutFile: everything is the default, perhaps because of a wrong directory.
func (s *session) withoutFile() bool { return s.cfg != nil && s.cfg.File == "" }

// checkOutput refuses a wrong -o before anything happens.
func (s *session) checkOutput() error {
	if s.output != "text" && s.output != "json" {
		word := s.output
		s.output = "text"
		return usagef("write -o text or -o json", "%q is no output", word)
	}
	return nil
}

// config loads the configuration once; flags maps paths to values given by flag.
func (s *session) config(flags map[string]string) (config.Config, error) {
	if s.cfg != nil {
		return *s.cfg, nil
	}
	given := map[string]string{}
	names := map[string]string{}
	maps.Copy(given, flags)
	for path, f := range map[string]struct{ value, name string }{
		"log.format": {s.logFormat, "--log-format"}, "log.level": {s.logLevel, "--log-level"},
	} {
		if f.value != "" {
			given[path], names[path] = f.value, f.name
		}
	}
	file := s.configFile
	if v, _ := s.p.Env(config.FileVariable); file == "" && v == "" {
		if _, err := os.Stat(defaultFile); !errors.Is(err, fs.ErrNotExist) {
			file = defaultFile
		}
	}
	c, err := config.Load(config.Source{File: file, Env: s.p.Env, Flags: given, FlagNames: names})
	if err != nil {
		return config.Config{}, err
	}
	s.cfg = &c
	return c, nil
}

// log is the logger as configured.
func (s *session) log(c config.Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.Log.Level.Slog()}
	if c.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(s.stderr, options))
	}
	return slog.New(slog.NewTextHandler(s.stderr, options))
}

// open wires the adapters once. It makes no call to the cloud yet.
func (s *session) open(ctx context.Context, flags map[string]string) (*wire.Bridge, error) {
	if s.bridge != nil {
		return s.bridge, nil
	}
	c, err := s.config(flags)
	if err != nil {
		return nil, err
	}
	cloud, err := s.aws(ctx)
	if err != nil {
		return nil, err
	}
	b, err := wire.New(wire.Options{Config: c, AWS: cloud, Env: s.p.Env, PubSub: s.p.PubSub, Now: s.p.Now, Log: s.log(c), Holder: s.holder(), Progress: s.progress()})
	if err != nil {
		return nil, err
	}
	s.bridge = b
	s.closeAtEnd(ctx, b)
	return b, nil
}

// closeWithin bounds the end of what is open; what is not closed by then ends
// with the process.
const closeWithin = 5 * time.Second

// closeAtEnd closes the bridge when the command is over, also one that was
// stopped.
func (s *session) closeAtEnd(ctx context.Context, b *wire.Bridge) {
	s.ended = append(s.ended, func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
		defer cancel()
		if err := b.Close(bounded); err != nil {
			b.Log.LogAttrs(bounded, slog.LevelWarn, "not closed in order", slog.String("error", err.Error()))
		}
	})
}

// aws is the SDK's configuration. Its keys are read anew when they have
// expired, so that a long run survives a rotation of the credentials file.
func (s *session) aws(ctx context.Context) (aws.Config, error) {
	load := s.p.AWS
	if load == nil {
		load = loadAWS
	}
	c, err := load(ctx)
	if err != nil {
		return aws.Config{}, hinted(fmt.Errorf("read the AWS configuration: %w", err), "look at AWS_PROFILE, ~/.aws/config and ~/.aws/credentials")
	}
	if c.Region == "" {
		return aws.Config{}, &usageError{"the AWS region is not known", "set AWS_REGION, or region in the profile"}
	}
	if client, ok := c.HTTPClient.(*awshttp.BuildableClient); ok {
		c.HTTPClient = client.WithTransportOptions(keepConnections)
	}
	// The SDK's own remarks are about connections, not about work.
	c.Logger = logging.LoggerFunc(func(_ logging.Classification, format string, v ...any) {
		if s.cfg != nil {
			s.log(*s.cfg).LogAttrs(ctx, slog.LevelDebug, "aws sdk", slog.String("remark", fmt.Sprintf(format, v...)))
		}
	})
	return c, nil
}

// keptConnections is how many connections to one host stay open between calls:
// as many as all pollers and batches of a busy process use at once. The SDK keeps
// ten, so that of twenty calls side by side every second one began with a TLS
// handshake.
const keptConnections = 256

func keepConnections(t *http.Transport) {
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, keptConnections // in all: no bound of its own
}

func loadAWS(ctx context.Context) (aws.Config, error) {
	// What the search for credentials remarks stands in its error too.
	quiet := awsconfig.WithLogger(logging.Nop{})
	c, err := awsconfig.LoadDefaultConfig(ctx, quiet)
	if err != nil {
		return aws.Config{}, err
	}
	c.Credentials = &awserr.Credentials{Load: func(ctx context.Context) (aws.CredentialsProvider, error) {
		again, err := awsconfig.LoadDefaultConfig(ctx, quiet)
		return again.Credentials, err
	}}
	return c, nil
}

// holder names this process to people who wait for its lease.
func (s *session) holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return strings.ToValidUTF8(s.p.User(), "?") + "@" + host + " pid " + itoa(os.Getpid())
}

// credentialsWithin bounds the search for credentials: a machine without any
// asks for those of an instance, and nobody answers.
const credentialsWithin = 10 * time.Second

// credentials finds out whether there are any, so that their lack is told once
// and not by everything that needs them.
func (s *session) credentials(ctx context.Context) error {
	c, err := s.aws(ctx)
	if err != nil || c.Credentials == nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, credentialsWithin)
	defer cancel()
	_, err = c.Credentials.Retrieve(bounded)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() != nil:
		return fmt.Errorf("%w: none were found within %s", dlqbridge.ErrCredentials, credentialsWithin)
	}
	if !errors.Is(err, dlqbridge.ErrCredentials) {
		err = fmt.Errorf("%w: %w", dlqbridge.ErrCredentials, err)
	}
	return err
}

func (s *session) close() {
	for _, v := range slices.Backward(s.ended) {
		v()
	}
}
