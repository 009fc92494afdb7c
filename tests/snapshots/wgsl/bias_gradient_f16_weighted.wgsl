enable f16;
@group(0) @binding(4) var<storage, read_write> v17: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f16>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn bias_gradient_f16_weighted(@builtin(workgroup_id) v185: vec3<u32>, @builtin(num_workgroups) v187: vec3<u32>, @builtin(local_invocation_index) v194: u32) {
let v224 = &v17;
let v225 = &v13;
let v226 = &v9;
let v227 = &v5;
let v228 = &v1;
let v90 = info_var.static_meta[4];
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v186 = v185[2];
let v94 = u32(v186);
let v188 = v187[1];
let v96 = u32(v188);
let v97 = v94 * v96;
let v189 = v187[0];
let v99 = u32(v189);
let v100 = v97 * v99;
let v190 = v185[1];
let v102 = u32(v190);
let v105 = v102 * v99;
let v106 = v100 + v105;
let v192 = v185[0];
let v108 = u32(v192);
let v109 = v106 + v108;
let v220 = u32(64);
let v112 = v109 * v220;
let v195 = v194;
let v114 = u32(v195);
let v115 = v112 + v114;
let v25 = v115 < v90;
if v25 {
let v27 = v115 / v21;
let v29 = v115 % v21;
let v30 = f32(0.0);
let v31 = vec4<f32>(v30);
var<function> v91_store: vec4<f32>;
let v91 = &v91_store;
*v91 = v31;
let v36 = &(*v226)[v27];
let v37 = *v36;
let v38 = u32(v37);
let v39 = u32(1);
let v40 = v27 + v39;
let v44 = &(*v226)[v40];
let v45 = *v44;
let v46 = u32(v45);
for(var v48: u32 = v38; v48 < v46; v48 += v39) {
let v53 = &(*v227)[v48];
let v54 = *v53;
let v55 = u32(v54);
let v56 = v55 / v22;
let v57 = v56 * v21;
let v58 = v57 + v29;
let v62 = &(*v228)[v58];
let v63 = *v62;
let v64 = vec4<f32>(v63);
let v74 = &(*v225)[v55];
let v75 = *v74;
let v76 = vec4<f32>(v75);
let v77 = *v91;
let v78 = fma(v76, v64, v77);
*v91 = v78;

}
let v83 = &(*v224)[v115];
let v84 = *v91;
*v83 = v84;

}
return;

}
