"""Real-looking secrets, assembled at run time: no complete token stands in the repository."""

from __future__ import annotations

import random
import string

LOWER_HEX = "0123456789abcdef"
ALNUM = string.ascii_letters + string.digits
URLSAFE = ALNUM + "-_"
BASE64 = ALNUM + "+/"

_random = random.Random(20261115)


def chars(alphabet: str, length: int) -> str:
    """Draw characters that look like a token: each class the alphabet has occurs."""
    while True:
        drawn = "".join(_random.choice(alphabet) for _ in range(length))
        kinds = (str.islower, str.isupper, str.isdigit)
        wanted = [test for test in kinds if any(map(test, alphabet))]
        # A placeholder word or a leading or trailing joint would make a sample another case.
        if (
            all(any(map(test, drawn)) for test in wanted)
            and drawn[0].isalnum()
            and drawn[-1].isalnum()
        ):
            return drawn


def uuid() -> str:
    return "-".join(chars(LOWER_HEX, n) for n in (8, 4, 4, 4, 12))


def _upper(length: int) -> str:
    return chars(string.ascii_uppercase + "234567", length)


TOKENS: tuple[tuple[str, str], ...] = (
    ("age-secret-key", "AGE-SECRET" + "-KEY-1" + _upper(58)),
    (
        "jwt",
        "eyJ" + chars(URLSAFE, 30) + "." + "eyJ" + chars(URLSAFE, 40) + "." + chars(URLSAFE, 43),
    ),
    ("anthropic-key", "sk-" + "ant-api03-" + chars(URLSAFE, 93)),
    ("openrouter-key", "sk-" + "or-v1-" + chars(LOWER_HEX, 64)),
    ("openai-key", "sk" + "-" + chars(ALNUM, 48)),
    ("openai-key", "sk" + "-proj-" + chars(URLSAFE, 80)),
    ("aws-access-key-id", "AK" + "IA" + _upper(16)),
    ("aws-access-key-id", "AS" + "IA" + _upper(16)),
    *(("github-token", f"gh{letter}" + "_" + chars(ALNUM, 36)) for letter in "pousr"),
    ("github-token", "github" + "_pat_" + chars(ALNUM, 22) + "_" + chars(ALNUM, 59)),
    ("gitlab-token", "gl" + "pat-" + chars(URLSAFE, 20)),
    *(
        ("slack-token", f"xox{letter}" + "-" + chars(string.digits, 11) + "-" + chars(ALNUM, 24))
        for letter in "baprs"
    ),
    ("stripe-key", "sk" + "_live_" + chars(ALNUM, 24)),
    ("stripe-key", "rk" + "_live_" + chars(ALNUM, 24)),
    ("stripe-key", "sk" + "_test_" + chars(ALNUM, 24)),
    ("google-api-key", "AI" + "za" + chars(URLSAFE, 35)),
    ("google-oauth-secret", "GOC" + "SPX-" + chars(URLSAFE, 28)),
    ("google-oauth-token", "ya" + "29." + chars(URLSAFE, 100)),
    ("npm-token", "np" + "m_" + chars(ALNUM, 36)),
    ("pypi-token", "pypi" + "-AgE" + "IcHlwaS5vcmc" + chars(URLSAFE, 100)),
    ("huggingface-token", "h" + "f_" + chars(ALNUM, 34)),
    ("sendgrid-key", "S" + "G." + chars(URLSAFE, 22) + "." + chars(URLSAFE, 43)),
    ("twilio-key", "S" + "K" + chars(LOWER_HEX, 32)),
    ("mailgun-key", "ke" + "y-" + chars(LOWER_HEX, 32)),
    ("telegram-bot-token", chars(string.digits, 10) + ":A" + "A" + chars(URLSAFE, 33)),
    (
        "discord-bot-token",
        "MT" + chars(ALNUM, 24) + "." + chars(URLSAFE, 6) + "." + chars(URLSAFE, 38),
    ),
    ("digitalocean-token", "dop" + "_v1_" + chars(LOWER_HEX, 64)),
    ("heroku-key", "HR" + "KU-" + chars(URLSAFE, 60)),
    ("azure-client-secret", chars(ALNUM, 3) + "8" + "Q~" + chars(ALNUM, 34)),
    ("databricks-token", "da" + "pi" + chars(LOWER_HEX, 32)),
    ("linear-key", "lin" + "_api_" + chars(ALNUM, 40)),
    ("notion-token", "nt" + "n_" + chars(ALNUM, 46)),
    ("notion-token", "sec" + "ret_" + chars(ALNUM, 43)),
    ("shopify-token", "shp" + "at_" + chars(LOWER_HEX, 32)),
    ("square-token", "sq0" + "atp-" + chars(URLSAFE, 22)),
    ("square-token", "EA" + "AA" + chars(URLSAFE, 60)),
    ("atlassian-token", "ATA" + "TT3" + chars(URLSAFE, 180)),
    ("vault-token", "hv" + "s." + chars(URLSAFE, 90)),
    ("doppler-token", "dp" + ".pt." + chars(ALNUM, 43)),
    ("groq-key", "gs" + "k_" + chars(ALNUM, 52)),
    ("xai-key", "xa" + "i-" + chars(ALNUM, 80)),
    ("perplexity-key", "pp" + "lx-" + chars(ALNUM, 48)),
    ("replicate-token", "r" + "8_" + chars(ALNUM, 37)),
    ("docker-token", "dckr" + "_pat_" + chars(URLSAFE, 27)),
    ("grafana-token", "gl" + "sa_" + chars(ALNUM, 32) + "_" + chars(LOWER_HEX, 8)),
    ("sentry-token", "snt" + "rys_" + chars(ALNUM, 120)),
    ("supabase-token", "sb" + "p_" + chars(LOWER_HEX, 40)),
    ("figma-token", "fi" + "gd_" + chars(URLSAFE, 40)),
    ("postman-key", "PM" + "AK-" + chars(LOWER_HEX, 24) + "-" + chars(LOWER_HEX, 34)),
    ("newrelic-key", "NR" + "AK-" + _upper(27)),
    ("brevo-key", "xkey" + "sib-" + chars(LOWER_HEX, 64) + "-" + chars(ALNUM, 16)),
    ("tailscale-key", "ts" + "key-auth-" + chars(ALNUM, 17) + "-" + chars(ALNUM, 32)),
    ("terraform-token", chars(ALNUM, 14) + ".atlas" + "v1." + chars(ALNUM, 67)),
    ("planetscale-token", "psc" + "ale_tkn_" + chars(ALNUM, 43)),
    ("rubygems-key", "ruby" + "gems_" + chars(LOWER_HEX, 48)),
    ("netlify-token", "nf" + "p_" + chars(ALNUM, 40)),
    ("high-entropy", chars(ALNUM, 40)),
    ("high-entropy", chars(ALNUM, 64)),
)

_SEED_WORDS = "abandon ability able about above absent absorb abstract absurd abuse access accident"
_SEED = " ".join(_SEED_WORDS.split())
_NUMBERED_SEED = " ".join(f"{n}. {word}" for n, word in enumerate(_SEED_WORDS.split(), 1))

# Kind, the secret, and the text around it that gives it away ("@@" stands for the secret).
CONTEXTUAL: tuple[tuple[str, str, str], ...] = (
    ("password", "orange-tiger", "The password for the staging box: @@"),
    ("password", "blaubeere", "PW = @@"),
    ("password", "kitten sandwich", 'client.login("bot", password="@@")'),
    ("password", "purple lamp seven river", 'The passphrase of the backup key is "@@"'),
    ("password", "rainyday", "wget --user=bob --password=@@ http://files.internal"),
    ("password", "rainyday77", "http -a bob:@@ files.internal"),
    ("password", "openSesame12", "openssl enc -aes-256-cbc -k @@ -in notes"),
    ("password", "ldapPw33", "ldapsearch -x -D cn=admin -w @@ -b dc=shop"),
    ("password", "Secret77x", "login: ada / @@"),
    ("password", "493817", "PIN: @@"),
    ("secret", "this-is-our-secret-2026", "JWT_SECRET=@@"),
    ("secret", "plainword77", "REDIS_AUTH=@@"),
    (
        "seed-phrase",
        " ".join(f"{number}. {word}" for number, word in enumerate(_SEED.split(), 1)),
        "The wallet words are: @@",
    ),
    ("aws-secret-key", chars(BASE64, 40), "aws_secret_access_key = @@"),
    ("aws-secret-key", chars(BASE64, 40), '{"SecretAccessKey": "@@"}'),
    (
        "slack-webhook",
        f"T{_upper(8)}/B{_upper(8)}/{chars(ALNUM, 24)}",
        "https://hooks.slack.com/services/@@",
    ),
    (
        "discord-webhook",
        chars(URLSAFE, 68),
        "https://discord.com/api/webhooks/123456789012345678/@@",
    ),
    ("twilio-auth-token", chars(LOWER_HEX, 32), "curl -u A" + "C" + chars(LOWER_HEX, 32) + ":@@"),
    (
        "twilio-auth-token",
        chars(LOWER_HEX, 32),
        "sid A" + "C" + chars(LOWER_HEX, 32) + " auth token @@",
    ),
    (
        "mailgun-key",
        f"{chars(LOWER_HEX, 32)}-{chars(LOWER_HEX, 8)}-{chars(LOWER_HEX, 8)}",
        "Mailgun: @@",
    ),
    ("heroku-key", uuid(), "HEROKU_API_KEY=@@"),
    ("azure-storage-key", chars(BASE64, 86) + "==", "AccountName=x;AccountKey=@@;EndpointSuffix=y"),
    ("azure-sas", chars(ALNUM, 43) + "%3D", "https://x.blob.core.windows.net/c?sv=2024&sig=@@"),
    ("url-password", "hunt" + "er2", "postgres://admin:@@@db.internal:5432/app"),
    ("url-password", "p@ss:w" + "rd", "see mysql://root:@@@localhost/x"),
    ("url-password", chars(ALNUM, 24), "redis://:@@@cache:6379/0"),
    ("url-password", chars(ALNUM, 32), "git clone https://@@@example.org/x.git"),
    ("authorization", chars(URLSAFE, 40), "Authorization: Bearer @@"),
    ("authorization", "dXNlcjpodW5" + "0ZXIy", '-H "authorization: Basic @@"'),
    ("authorization", chars(ALNUM, 24), '{"Authorization": "Bearer @@"}'),
    ("authorization", chars(ALNUM, 24), "send Bearer @@ with it"),
    ("password", "hunt" + "er2", "password=@@"),
    ("password", "hunt" + "er2", "The password is @@."),
    ("password", "c0rrect" + "-horse!", "DB_PASSWORD: '@@'"),
    ("password", "c0rrect" + "-horse!", '{"dbPassword":"@@"}'),
    ("password", "c0rrect" + "-horse!", "**Password:** `@@`"),
    ("password", "c0rrect" + "-horse!", "| password | @@ |"),
    ("password", "c0rrect" + "-horse!", "<password>@@</password>"),
    ("password", "c0rrect" + "-horse!", "mysql --password @@ -u root"),
    ("password", "c0rrect" + "-horse!", "Server=db;Password=@@;Database=x"),
    ("password", "c0rrect" + "-horse!", "https://x.org/login?password=@@&user=bob"),
    ("password", "Geh" + "eim123", "Passwort: @@"),
    ("password", "ab12" + "cd34", "数据库密码\uff1a@@\uff0c请勿外传"),
    ("password", "ab12" + "cd34", "パスワード=@@です"),
    ("api-key", chars(ALNUM, 20), "api_key: @@"),
    ("api-key", chars(LOWER_HEX, 32), "X-Api-Key: @@"),
    ("api-key", chars(ALNUM, 20), 'apiKey: str = "@@"'),
    ("secret", chars(ALNUM, 20), "client_secret = '@@'"),
    ("secret", chars(ALNUM, 20), r'"{\"clientSecret\": \"@@\"}"'),
    ("token", chars(ALNUM, 20), "TOKEN=@@"),
    # Plain words, where only the place says that they are a password.
    *(
        ("password", secret, context)
        for secret, context in (
            ("correct" + "-horse-battery", "ADMIN_PASSWORD=@@"),
            ("sword" + "fish", "export DB_PASS=@@"),
            ("sword" + "fish", 'create_engine(host="db", password="@@")'),
            ("correct" + "-horse", "db.password=@@"),
            ("correct" + "-horse", '{"password": "@@"}'),
            ("sword" + "fish", "curl -s -u admin:@@ https://api.test"),
            ("sword" + " fish", "curl --user 'admin:@@' https://api.test"),
            ("sword" + "fish", "mysql -u root -p@@ app"),
            ("sword" + "fish", "mysqldump -u root -p'@@' app"),
            ("sword" + "fish", "sshpass -p @@ ssh root@db"),
            ("sword" + "fish", "docker login -u bob -p @@ registry.test"),
            ("sword" + "fish", "redis-cli -h cache -a @@ ping"),
            ("sword" + "fish", "machine api.test login bob password @@"),
            ("sword" + "fish", "machine api.test\n  login bob\n  password @@\n"),
            ("sword" + "fish", "# .pgpass\ndb.test:5432:app:bob:@@\n"),
            ("hunt" + "er2", "| Password | `@@` |"),
            ("hunt" + "er2", "| user | password |\n|---|---|\n| bob | @@ |\n"),
            ("hunt" + "er2", "Password for the router: @@"),
            ("hunt" + "er2", "user,password,role\nbob,@@,admin\n"),
            ("sword" + "fish", "net use Z: \\\\nas\\share @@ /user:bob"),
            ("sword" + "fish", "In .pgpass it says db.test:5432:app:bob:@@ for now."),
            ("hunt" + "er2", "the password for root on db1 is @@"),
            ("hunt" + "er2", "pw: @@"),
            ("correct horse" + " battery staple", "passphrase: @@"),
            ("correct horse" + " battery staple", 'Passphrase for the key: "@@"'),
        )
    ),
    *(
        ("seed-phrase", _SEED, context)
        for context in (
            "seed phrase: @@", 'mnemonic = "@@"', "seed phrase: @@\n\nkeep these safe",
            "seed phrase: @@\nkeep the words safe",
        )
    ),
    ("seed-phrase", _NUMBERED_SEED, "Recovery phrase:\n@@\n"),
    ("card-number", "4111 1111" + " 1111 1111", "Visa @@, 12/29"),
    ("card-number", "5555-5555" + "-5555-4444", "@@"),
    ("card-number", "378282" + "246310005", "amex=@@"),
    ("token", chars(LOWER_HEX, 40), "//registry.npmjs.org/:_authToken=@@"),
)  # fmt: skip

_WORDS = "Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz"
_IMAGE = chars(BASE64, 76) + "\n" + chars(BASE64, 76) + "\n" + chars(BASE64, 30) + "=="
_BLOCK = "\n".join(chars(BASE64, 64) for _ in range(4)) + "\n" + chars(BASE64, 20) + "=="
_PGP = "-----BEGIN PGP PUBLIC KEY BLOCK-----\nVersion: GnuPG v2"

HARMLESS: tuple[str, ...] = (
    "postgresql://app:password@localhost/shop",
    "The password for staging: see the vault",
    "USE_AUTH=github",
    "the password: case-sensitive",
    "password reset: two-step",
    'The passphrase is "the one from last week"',
    "login: web / mobile",
    "PIN: 13",
    "use the --password option",
    *(f"md5 or sha: {chars(LOWER_HEX, n)}" for n in (32, 40, 56, 64, 96, 128)),
    chars(LOWER_HEX, 64).upper(),
    "0x" + chars(LOWER_HEX, 64).upper(),
    f"commit {chars(LOWER_HEX, 40)} fixes it",
    f"id: {uuid()}",
    f"sha512-{chars(BASE64, 86)}==",
    f'"integrity": "sha256-{chars(BASE64, 43)}="',
    f"SHA256:{chars(BASE64, 43)}",
    f"golang.org/x/text v0.3.0 h1:{chars(BASE64, 43)}=",
    f"![x](data:image/png;base64,iVBORw0KGgo{chars(BASE64, 200)}=)",
    *(
        f"{magic}{_IMAGE}\n\nA line after it."
        for magic in ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR")
    ),
    "/home/alice/projects/MyApp2/src/components/Button3/index.test.tsx",
    "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1/Contents/Resources2/Base.lproj",
    r"C:\Users\Alice\AppData\Local\Programs\Python\Python311\Lib\site-packages",
    "https://docs.google.com/document/d/" + chars(URLSAFE, 44) + "/edit",
    "https://github.com/org/repo/blob/" + chars(LOWER_HEX, 40) + "/src/auth.py#L10-L42",
    "http://localhost:8080/@scope/package and http://[::1]:80/x@y",
    "git@github.com:org/repo.git, mailto:alice@example.org",
    "getUserByIdFromDatabase2AndCacheResultWithRetry",
    "test_update_with_stale_hash_changes_nothing_V2_on_Linux",
    "AbstractSingletonProxyFactoryBean2ConfigurationImpl",
    _WORDS + " und Donaudampfschifffahrtsgesellschaftskapitän",
    "retain-bank==1.4.0rc1, numpy 2.1.3, node v22.11.0",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    chars(URLSAFE, 21),
    chars(URLSAFE, 23),
    f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{chars(BASE64, 43)} alice@host",
    f"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{chars(BASE64, 340)}= bob",
    f"-----BEGIN CERTIFICATE-----\n{_BLOCK}\n-----END CERTIFICATE-----",
    f"-----BEGIN PUBLIC KEY-----\n{_BLOCK}\n-----END PUBLIC KEY-----",
    f"{_PGP}\n\n{_BLOCK}\n=aB3d\n-----END PGP PUBLIC KEY BLOCK-----",
    f"public_key: {chars(BASE64, 43)}=",
    "password=${DB_PASSWORD} token=$TOKEN secret={{ vault.secret }}",
    "password = os.environ['DB_PASSWORD_1']; token = get_token2(user)",
    "api_key=<your-key> api_key: xxxxxxxx1 password: changeme123 token: example-token-1",
    "password: string; token?: string; apiKey: settings.API_KEY_2",
    "password: required, token: bearer, secret: kubernetes",
    "API_KEY=YOUR_API_KEY_1 Authorization: Bearer YOUR_TOKEN_1 Authorization: Bearer $TOKEN",
    "max_tokens: 4096, token count: 128000, token=200000",
    "password_hash is bcrypt, the token is refreshed, the secret was rotated",
    "token_file: /run/secrets/db_token2 and password: /run/secrets/db_password2",
    "password algorithm: argon2id; password: argon2id",
    "It starts with `-----BEGIN PRIVATE KEY-----` and ends with `-----END PRIVATE KEY-----`.",
    "Never commit a PRIVATE KEY.",
    "task-runner sk-circle-fade-dot-container disk-usage key-value npm_config_registry",
    "docker run --name mysql -p 3306:3306 mysql -p && docker run -p3306:3306 -u 1000:1000 mysql ",
    'curl -u user:$PASS https://x.test; curl -u "$USER:$PASS" y; curl -u username:password z',
    "mysql -P3306 -p db; ssh -p 2222 host; sshpass -e ssh x; mkdir -p foo; redis-cli -a $REDIS_PW",
    'password="required" <input type="password" name="password" placeholder="Password">',
    "login(user=name, password=user_password); password = 'user.password'",
    "POSTGRES_PASSWORD=postgres",
    "Passphrase: used to decrypt the private key. The passphrase is stored in the vault.",
    "seed words: twelve words that the wallet shows to the user once when it is created first",
    "Password for the database: see the vault. Password for X: ask Bob",
    "PASS: tests/unit/test_x2.sh, pass: 12345 tests; on this machine login with password reset on",
    "| Field | Type |\n|---|---|\n| password | string |\n| token | Bearer |",
    "| name | password |\n|---|---|\n| bob | see vault |\n| eve | ${PASSWORD} |",
    "order 1234567890123456, 4111 1111 1111 1112, at 1731888000000 and 1731888000000000",
    "cpe:2.3:a:vendor:product:1.0:*:*:*:*:*:*:* src/foo.py:12:3:5:error",
    "AKIAIOSFODNN7" + "EXAMPLE, aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx sk-ant-your-key-goes-here-1234",
    "Use a password of 12 characters; the password was changed on 2026-11-18. PWD=/home/alice",
    "the key insight: batches2x; primary key: user_id2; key=abc123def456",
)


def private_key(label: str = "RSA ") -> str:
    return f"-----BEGIN {label}PRIVATE" + f" KEY-----\n{_BLOCK}\n-----END {label}PRIVATE KEY-----"
