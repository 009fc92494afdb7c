@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn expert_activation_gradient_f32_relu(@builtin(workgroup_id) v173: vec3<u32>, @builtin(num_workgroups) v175: vec3<u32>, @builtin(local_invocation_index) v182: u32) {
let v213 = &v13;
let v214 = &v9;
let v215 = &v5;
let v216 = &v1;
let v78 = info_var.static_meta[1];
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v174 = v173[2];
let v82 = u32(v174);
let v176 = v175[1];
let v84 = u32(v176);
let v85 = v82 * v84;
let v177 = v175[0];
let v87 = u32(v177);
let v88 = v85 * v87;
let v178 = v173[1];
let v90 = u32(v178);
let v93 = v90 * v87;
let v94 = v88 + v93;
let v180 = v173[0];
let v96 = u32(v180);
let v97 = v94 + v96;
let v208 = u32(64);
let v100 = v97 * v208;
let v183 = v182;
let v102 = u32(v183);
let v103 = v100 + v102;
let v21 = v103 < v78;
if v21 {
let v23 = v103 / v18;
let v24 = v23 * v18;
let v28 = v103 % v18;
let v29 = v24 + v28;
let v33 = &(*v214)[v17];
let v34 = *v33;
let v35 = u32(v34);
let v36 = v23 < v35;
if v36 {
let v41 = &(*v215)[v103];
let v42 = *v41;
let v46 = &(*v216)[v29];
let v47 = *v46;
let v48 = f32(0.0);
let v49 = vec4<f32>(v48);
let v50 = f32(1.0);
let v51 = vec4<f32>(v50);
let v60 = v49 < v47;
let v61 = select(v49, v51, v60);
let v62 = v42 * v61;
let v66 = &(*v213)[v29];
*v66 = v62;

} else {
let v67 = f32(0.0);
let v68 = vec4<f32>(v67);
let v75 = &(*v213)[v29];
*v75 = v68;

}

}
return;

}
