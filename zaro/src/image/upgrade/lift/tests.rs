use super::*;
use crate::meta::json::json;

/// With members in order, so that order does not count.
fn sorted(json: &Json) -> Json {
    match json {
        Json::Object(members) => {
            let mut members: Vec<_> = members.iter().map(|(n, v)| (n.clone(), sorted(v))).collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            Json::Object(members)
        }
        Json::Array(items) => Json::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// Whether two documents say the same, in whatever order.
#[track_caller]
fn same(found: &Json, wanted: &str) {
    assert_eq!(sorted(found), sorted(&json(wanted)));
}

fn context(levels: &[(&str, &[u64])]) -> GroupContext {
    let array = |shape: &[u64]| LevelArray { shape: shape.to_vec(), data_type: DataType::UInt(16) };
    GroupContext {
        arrays: levels.iter().map(|(path, shape)| ((*path).to_owned(), array(shape))).collect(),
        ..GroupContext::default()
    }
}

fn lifted(text: &str, from: ImageVersion, to: ImageVersion, context: &GroupContext) -> Json {
    lift(&json(text), from, to, context).unwrap().attributes
}

#[test]
fn axes_get_names_and_then_types() {
    let old = r#"{"multiscales":[{"datasets":[{"path":"0"},{"path":"1","own":1}],"version":"0.1","name":"n"}],"mine":[1]}"#;
    let c = context(&[("0", &[1, 2, 3, 33, 48]), ("1", &[1, 2, 3, 16, 24])]);
    assert_eq!(
        lifted(old, ImageVersion::V01, ImageVersion::V02, &c),
        json(
            r#"{"multiscales":[{"datasets":[{"path":"0"},{"path":"1","own":1}],"version":"0.2","name":"n"}],"mine":[1]}"#
        )
    );
    same(
        &lifted(old, ImageVersion::V02, ImageVersion::V03, &c),
        r#"{"multiscales":[{"axes":["t","c","z","y","x"],"datasets":[{"path":"0"},{"path":"1","own":1}],
            "version":"0.3","name":"n"}],"mine":[1]}"#,
    );
    same(
        &lifted(old, ImageVersion::V01, ImageVersion::V04, &c),
        r#"{"multiscales":[{"axes":[{"name":"t","type":"time"},{"name":"c","type":"channel"},{"name":"z","type":"space"},
            {"name":"y","type":"space"},{"name":"x","type":"space"}],"datasets":[
            {"path":"0","coordinateTransformations":[{"type":"scale","scale":[1.0,1.0,1.0,1.0,1.0]}]},
            {"path":"1","own":1,"coordinateTransformations":[{"type":"scale","scale":[1.0,1.0,1.0,2.0625,2.0]}]}],
            "version":"0.4","name":"n"}],"mine":[1]}"#,
    );
}

#[test]
fn a_pyramid_of_means_is_moved_by_half_a_pixel() {
    let c = context(&[("0", &[32, 48]), ("1", &[16, 24])]);
    for (kind, moved) in [("local_mean", true), ("gaussian", true), ("nearest", false), ("x", false)] {
        let old = format!(
            r#"{{"multiscales":[{{"axes":["y","x"],"type":"{kind}","datasets":[{{"path":"0"}},{{"path":"1"}}]}}]}}"#
        );
        let new = lifted(&old, ImageVersion::V03, ImageVersion::V04, &c);
        let text = new.to_string();
        assert_eq!(text.contains(r#""translation":[0.5,0.5]"#), moved, "{text}");
    }
}

#[test]
fn a_level_that_is_not_there_is_named() {
    let e = lift(
        &json(r#"{"multiscales":[{"datasets":[{"path":"gone"}]}]}"#),
        ImageVersion::V01,
        ImageVersion::V04,
        &context(&[]),
    );
    assert!(e.unwrap_err().to_string().contains("gone"));
}

#[test]
fn wells_get_their_row_and_column() {
    let old = r#"{"plate":{"rows":[{"name":"A"},{"name":"B"}],"columns":[{"name":"1"},{"name":"2"}],"version":"0.3",
        "wells":[{"path":"B/1","own":2}]}}"#;
    same(
        &lifted(old, ImageVersion::V03, ImageVersion::V05, &context(&[])),
        r#"{"ome":{"version":"0.5","plate":{"rows":[{"name":"A"},{"name":"B"}],"columns":[{"name":"1"},{"name":"2"}],
            "version":"0.5","wells":[{"path":"B/1","own":2,"rowIndex":1,"columnIndex":0}]}}}"#,
    );
}

#[test]
fn channels_are_completed_for_0_4() {
    let old = r#"{"multiscales":[{"datasets":[{"path":"0"}]}],"omero":{"channels":[{"window":{"start":3,"end":9}}]}}"#;
    let c = context(&[("0", &[1, 1, 1, 4, 4])]);
    let new = lift(&json(old), ImageVersion::V02, ImageVersion::V04, &c).unwrap();
    let text = new.attributes.get("omero").unwrap().to_string();
    assert_eq!(text, r#"{"channels":[{"window":{"start":3,"end":9,"min":0,"max":65535},"color":"FFFFFF"}]}"#);
    assert_eq!(new.notes.len(), 1);
}

const IMAGE: &str = r#"{"multiscales":[{"version":"0.4","name":"n","axes":[{"name":"y","type":"space","unit":"micrometer"},
    {"name":"x","type":"space"}],"datasets":[{"path":"0","coordinateTransformations":[{"type":"scale","scale":[0.5,1]}]},
    {"path":"1","own":[1],"coordinateTransformations":[{"type":"scale","scale":[1.0,2]},{"type":"translation",
    "translation":[0.25,0.5]}]}],"coordinateTransformations":[{"type":"scale","scale":[10,20]}],"type":"mean",
    "metadata":{"method":"m"}}],"omero":{"id":3,"version":"0.4","channels":[{"color":"00FF00","mine":true}]},"mine":{"a":null}}"#;

#[test]
fn the_way_up_and_down_again_changes_nothing() {
    let c = GroupContext { ome: true, ..GroupContext::default() };
    let all = [
        IMAGE,
        r#"{"image-label":{"version":"0.4","colors":[{"label-value":1,"rgba":[1,2,3,4]}],"own":1},"_creator":{"name":"x"}}"#,
        r#"{"plate":{"version":"0.4","wells":[{"path":"A/1","rowIndex":0,"columnIndex":0}]},"bioformats2raw.layout":3}"#,
        r#"{"well":{"version":"0.4","images":[{"path":"0"}]}}"#,
        r#"{"labels":["a","b"]}"#,
        r#"{"series":["0","1"]}"#,
    ];
    for text in all {
        let mut at = json(text);
        let way =
            [ImageVersion::V04, ImageVersion::V05, ImageVersion::V06, ImageVersion::V05, ImageVersion::V04];
        let mut seen = Vec::new();
        for pair in way.windows(2) {
            at = lift(&at, pair[0], pair[1], &c).unwrap().attributes;
            seen.push(at.clone());
        }
        same(&at, text);
        assert_eq!(sorted(&seen[0]), sorted(&seen[2]), "0.5 is the same on the way up and down");
        // All at once is the same as one by one.
        let all = lift(&json(text), ImageVersion::V04, ImageVersion::V06, &c).unwrap().attributes;
        assert_eq!(sorted(&all), sorted(&seen[1]));
    }
}

#[test]
fn every_group_states_its_version() {
    let c = GroupContext { ome: true, ..GroupContext::default() };
    assert_eq!(
        lifted(r#"{"labels":["a"]}"#, ImageVersion::V04, ImageVersion::V05, &c).to_string(),
        r#"{"ome":{"version":"0.5","labels":["a"]}}"#
    );
    assert_eq!(
        lifted("{}", ImageVersion::V04, ImageVersion::V06, &c).to_string(),
        r#"{"ome":{"version":"0.6"}}"#
    );
    assert_eq!(
        lifted(r#"{"a":1}"#, ImageVersion::V04, ImageVersion::V06, &GroupContext::default()).to_string(),
        r#"{"a":1}"#
    );
    assert_eq!(
        lifted(
            r#"{"ome":{"version":"0.5","image-label":{"version":"0.5"}}}"#,
            ImageVersion::V05,
            ImageVersion::V06,
            &c
        )
        .to_string(),
        r#"{"ome":{"version":"0.6","image-label":{}}}"#
    );
}

#[test]
fn lists_of_transforms_become_one() {
    let new = lifted(IMAGE, ImageVersion::V04, ImageVersion::V06, &GroupContext::default());
    let multiscale = &new.get("ome").unwrap().get("multiscales").unwrap().items().unwrap()[0];
    same(
        multiscale.get("datasets").unwrap(),
        r#"[{"path":"0","coordinateTransformations":[{"type":"scale","scale":[0.5,1],"input":{"path":"0"},
            "output":{"name":"intrinsic"}}]},{"path":"1","own":[1],"coordinateTransformations":[{"type":"sequence",
            "transformations":[{"type":"scale","scale":[1.0,2]},{"type":"translation","translation":[0.25,0.5]}],
            "input":{"path":"1"},"output":{"name":"intrinsic"}}]}]"#,
    );
    same(
        &multiscale.get("coordinateTransformations").unwrap().items().unwrap()[0],
        r#"{"type":"scale","scale":[10,20],"input":{"name":"intrinsic"},"output":{"name":"world"}}"#,
    );
    assert!(multiscale.get("axes").is_none());
    assert_eq!(multiscale.get("coordinateSystems").unwrap().items().unwrap().len(), 2);
}

#[test]
fn transforms_in_another_order_are_worked_out() {
    let steps = [
        json(r#"{"type":"translation","translation":[1,2]}"#),
        json(r#"{"type":"scale","scale":[10,100]}"#),
        json(r#"{"type":"identity"}"#),
    ];
    let plain: Vec<String> = transforms::plain(&steps, 2).unwrap().iter().map(Json::to_string).collect();
    assert_eq!(
        plain,
        [r#"{"type":"scale","scale":[10.0,100.0]}"#, r#"{"type":"translation","translation":[10.0,200.0]}"#]
    );
    let other = [json(r#"{"type":"rotation","rotation":[[1,0],[0,1]]}"#)];
    assert!(transforms::plain(&other, 2).unwrap_err().to_string().contains("rotation"));
}

#[test]
fn what_0_5_cannot_say_is_an_error_or_left_out() {
    let new = r#"{"ome":{"version":"0.6","multiscales":[{"coordinateSystems":[{"name":"physical","axes":[{"name":"y"},
        {"name":"x"}]},{"name":"turned","axes":[{"name":"y"},{"name":"x"}]}],"datasets":[{"path":"0",
        "coordinateTransformations":[{"type":"identity","input":{"path":"0"},"output":{"name":"physical"}}]}],
        "coordinateTransformations":[{"type":"rotation","rotation":[[0,1],[1,0]],"input":{"name":"physical"},
        "output":{"name":"turned"}}]}]}}"#;
    let e = lift(&json(new), ImageVersion::V06, ImageVersion::V04, &GroupContext::default())
        .unwrap_err()
        .to_string();
    assert!(e.contains("rotation") && e.contains("turned"), "{e}");
    let lossy = GroupContext { lossy: true, ..GroupContext::default() };
    let old = lift(&json(new), ImageVersion::V06, ImageVersion::V04, &lossy).unwrap();
    assert_eq!(old.notes.len(), 3, "{:?}", old.notes);
    same(
        &old.attributes,
        r#"{"multiscales":[{"version":"0.4","axes":[{"name":"y"},{"name":"x"}],"datasets":[{"path":"0",
            "coordinateTransformations":[{"type":"scale","scale":[1.0,1.0]}]}]}]}"#,
    );
    assert!(lift(&json("{}"), ImageVersion::V04, ImageVersion::V03, &lossy).is_err());
}
